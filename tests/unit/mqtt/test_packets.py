"""MQTT packets as bytes, against paho, which made or reads the same ones."""

import random

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from support.mqtt_packets import Written

from looplab.mqtt.packets import (
    CORRELATION_DATA,
    RESPONSE_TOPIC,
    PacketBuffer,
    parse_publish,
    parse_publish_5,
    property_bytes,
    publish_packet,
    read_publish,
    with_length,
)

SIZES = [0, 1, 121, 122, 123, 16_377, 16_378, 70_000, 2_097_144, 2_097_145]


def paho_publish(payload: bytes, qos: int, retain: bool) -> bytes:
    client = Written()
    client._send_publish(0x0102, b"a/t\xc3\xb6pic", payload, qos, retain, info=mqtt.MQTTMessageInfo(1))
    return client.packets[0]


@pytest.mark.parametrize("size", SIZES)
def test_a_publish_is_the_one_paho_sends(size: int) -> None:
    payload = bytes(size)
    for retain in (False, True):
        packet = publish_packet("a/töpic".encode(), payload, retain)
        assert packet == paho_publish(payload, 0, retain)
        assert parse_publish(packet) == ("a/töpic".encode(), b"", payload)
    for qos in (1, 2):
        assert parse_publish(paho_publish(payload, qos, True)) == ("a/töpic".encode(), b"\1\2", payload)


def test_packets_are_cut_out_of_any_pieces() -> None:
    """A first length byte of 128 or more is no length: 130 of 131 bytes once passed for a whole packet."""
    rng = random.Random(1)
    packets = [
        publish_packet(b"t", rng.randbytes(rng.choice([0, 5, 124, 125, 300, 20_000])), False) for _ in range(600)
    ]
    packets += [b"\xd0\0", b"\x40\2\0\1"] * 50
    rng.shuffle(packets)
    stream, buffer, found = b"".join(packets), PacketBuffer(), []
    while stream:
        size = rng.choice([1, 2, 3, 10, 200, 5000])
        found += buffer.packets(stream[:size])
        stream = stream[size:]
    assert found == packets
    for length in (*range(2, 20), *range(120, 265), 16_385, 33_154):
        packet = publish_packet(b"t", b"x" * length, False)
        for end in {1, 2, 3, len(packet) // 2, len(packet) - 2, len(packet) - 1}:
            buffer = PacketBuffer()
            assert buffer.packets(packet[:end]) == []
            assert buffer.packets(packet[end:]) == [packet]


def test_properties_of_mqtt_5_are_read_as_paho_writes_them() -> None:
    properties = Properties(PacketTypes.PUBLISH)
    properties.CorrelationData, properties.TopicAlias, properties.ResponseTopic = b"\1\2", 7, "a/b"
    properties.UserProperty, properties.MessageExpiryInterval = ("a", "b"), 60
    client = Written(mqtt.MQTTv5)
    for topic in ("a/töpic", ""):
        client._send_publish(1, topic.encode(), b"payload", 1, False, False, mqtt.MQTTMessageInfo(1), properties)
        assert read_publish(client.packets[-1], 5) == (topic.encode(), b"\0\1", b"payload", b"\1\2", 7)
    for cut in range(2, len(client.packets[-1]) - len(b"payload")):
        with pytest.raises((ValueError, IndexError)):
            read_publish(client.packets[-1][:cut], 5)


@pytest.mark.parametrize("correlation", [None, b"", b"17", bytes(150)])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_publish_of_mqtt_5_is_read_as_paho_sends_it(qos: int, correlation: bytes | None) -> None:
    """And its properties are written so; own packets go to a broker in tests/integration/mqtt/test_client.py."""
    paho, properties, ours = Written(mqtt.MQTTv5), Properties(PacketTypes.PUBLISH), b""
    if correlation is not None:
        properties.ResponseTopic, properties.CorrelationData = "a/b", correlation
        ours = property_bytes(RESPONSE_TOPIC, b"a/b") + property_bytes(CORRELATION_DATA, correlation)
    for size in SIZES[:6]:
        paho._send_publish(1, "a/töpic".encode(), bytes(size), qos, True, False, mqtt.MQTTMessageInfo(1), properties)
        topic, number, found, payload = parse_publish_5(paho.packets[-1])
        assert (topic, number, payload) == ("a/töpic".encode(), b"\0\1" if qos else b"", bytes(size))
        assert found == properties.pack() == with_length(ours)
