"""Requests and answers: what is written is read back, anything else is told to be malformed."""

import pytest

from looplab.experiments.loop import protocol
from looplab.mqtt.packets import CORRELATION_DATA, RESPONSE_TOPIC, property_bytes, with_length


@pytest.mark.parametrize(
    ("asked", "byte"),
    [
        *((command, command) for command in (b"T", b"L", b"S", b"E", b"U")),
        # A level is a byte of the serial line.
        (b"B0", b"\x80"), (b"B64", b"\xc0"), (b"B127", b"\xff"),
    ],
)  # fmt: skip
def test_request_is_taken_apart(asked: bytes, byte: bytes) -> None:
    assert protocol.parse_request(asked + b"-a1b2c3d4-17") == protocol.LoopRequest(byte, b"a1b2c3d4", 17)


@pytest.mark.parametrize(
    "payload",
    [
        b"", b"T", b"T-run-", b"T--1", b"X-run-1", b"B-run-1", b"B128-run-1", b"U1-run-1", b"T-run-1\n", b"T-run--1x",
        b"T-run-1234567890", b"T-r,n-1", b"T-run-\xd9\xa1", b"T-" + b"r" * 65 + b"-1",
        b"T-run-" + b"0" * protocol.MAX_PAYLOAD_BYTES, bytes(range(256)),
    ],
)  # fmt: skip
def test_malformed_request_is_none(payload: bytes) -> None:
    assert protocol.parse_request(payload) is None


WIRE = (16, 4_300_000, 1_200_000)


@pytest.mark.parametrize(
    ("more", "times"),
    [
        (b"", (-1,) * 5), (b",16,4300000,1200000,,", (*WIRE, -1, -1)),
        (b",16,4300000,1200000,70000,", (*WIRE, 70_000, -1)), (b",16,4300000,1200000,,30000", (*WIRE, -1, 30_000)),
        (b",16,4300000,1200000,70000,0", (*WIRE, 70_000, 0)),
    ],
)  # fmt: skip
def test_an_answer_may_have_times_of_an_earlier_one(more: bytes, times: tuple[int, ...]) -> None:
    found = protocol.parse_answer(b"a1b2,17,timeout,250000000,25.50" + more)
    assert found == protocol.LoopAnswer(b"a1b2", 17, b"timeout", 250_000_000, b"25.50", *times)


@pytest.mark.parametrize(
    "payload",
    [
        b"", b"a,1,ok,5", b"a,1,ok,-5,20.0", b"a,1,OK,5,20.0", b"a,1,ok,5,20.0,3", b"a,1,ok,5,20.0,3,4,5,6",
        b"a,1,ok,5,20.0,3,-4,5", b"a,1,ok,5,20.0,3,4,5,6,7,8", b"a,1,ok,5,20.0\n", b"a,1,ok,5,2\x000.0",
        b"a,1,ok,1234567890123456789,20.0", b",1,ok,5,20.0", b"a,1,ok,5," + b"9" * 33,
        b"a" * (protocol.MAX_PAYLOAD_BYTES + 1), bytes(range(256)),
    ],
)  # fmt: skip
def test_malformed_answer_is_none(payload: bytes) -> None:
    assert protocol.parse_answer(payload) is None


def test_an_answer_of_mqtt_5_goes_where_its_request_says() -> None:
    topic, properties = protocol.answer_to(with_length(protocol.request_properties(b"T-a1b2-17")))
    assert (topic, properties) == ("answer/", property_bytes(CORRELATION_DATA, b"17"))
    assert protocol.answer_to(b"") == protocol.answer_to(b"\0") == ("answer/", b"")


@pytest.mark.parametrize("topic", [b"", b"a/#", b"+", b"\xff", b"a\0b", b"a" * 101])
def test_a_topic_that_no_answer_can_have_is_malformed(topic: bytes) -> None:
    with pytest.raises(ValueError, match=r"no answer can have|codec"):
        protocol.answer_to(with_length(property_bytes(RESPONSE_TOPIC, topic)))
    with pytest.raises(ValueError, match=r"no answer can have|codec"):
        protocol.answer_to(with_length(property_bytes(CORRELATION_DATA, bytes(protocol.MAX_PAYLOAD_BYTES))))
