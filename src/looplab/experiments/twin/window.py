"""A broker's window of unconfirmed messages: how many at QoS 1 it hands to a client that confirms none."""

import secrets
from collections.abc import Sequence
from time import perf_counter_ns

from looplab.mqtt.client import ClientOptions, MqttClient, wait, wait_for
from looplab.mqtt.dial import Target
from looplab.treatments.judgement import Treatment

# The test sends EXTRA messages more than the window, or PLENTY if there is no limit.
EXTRA, PLENTY = 10, 1000
# MQTT has 16 bits for the identifier of a packet.
MOST = 65_535
# No further message comes after a silence of this length.
QUIET_NS = 300_000_000


def windows(hosts: Sequence[tuple[str, int]], wanted: int, timeout_s: float = 5.0) -> list[Treatment]:
    """Return one treatment for each broker; `wanted` is its window in messages, 0 for no limit."""
    count = min(wanted + EXTRA, MOST) if wanted else PLENTY
    judged = []
    for host, port in hosts:
        got = _handed_over(Target(host, port, tcp_nodelay=True), count, timeout_s)
        what, verified = f"{host}:{port} window", got == (wanted or count)
        judged.append(Treatment(what, _shown(wanted or count, count), _shown(got, count), verified))
    return judged


def _shown(messages: int, count: int) -> str:
    return "no limit" if messages == count else f"{messages} messages" if messages >= 0 else "no answer"


def _handed_over(broker: Target, count: int, timeout_s: float) -> int:
    """Return how many of `count` messages the broker hands over; -1 if it does not answer within `timeout_s`."""
    topic, taken = f"window/{secrets.token_hex(4)}", [0]

    def take(_topic: bytes, _payload: bytes, _qos: int) -> None:
        taken[0] += 1

    client = MqttClient(broker, topic, ClientOptions([(topic, 1)], max_inflight=0, holds=True), take)
    try:
        if not wait_for([client], lambda: client.subscribed, timeout_s):
            return -1
        for _ in range(count):
            client.publish(topic, b"window", 1)
        before = -1
        while taken[0] != before:
            before = taken[0]
            wait([client], perf_counter_ns() + QUIET_NS)
        return taken[0]
    finally:
        client.close()
