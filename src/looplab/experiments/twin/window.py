"""A broker's window of unconfirmed messages: how many at QoS 1 it hands to a client that confirms none."""

import secrets
from collections.abc import Callable, Sequence
from time import perf_counter_ns

from looplab.mqtt.client import ClientOptions, MqttClient, wait
from looplab.mqtt.dial import Target
from looplab.treatments.judgement import Treatment

# So many messages more than the window; without a limit so many in all.
EXTRA, PLENTY = 10, 1000
# Identifiers of packets are 16 bits long.
MOST = 65_535
STEP_NS = 20_000_000
# The last one has come if no other has for so long.
QUIET_NS = 400_000_000
TIMEOUT_NS = 5_000_000_000


def windows(hosts: Sequence[tuple[str, int]], wanted: int, timeout_ns: int = TIMEOUT_NS) -> list[Treatment]:
    """Return one treatment for each broker; `wanted` is its window in messages, 0 for no limit.

    One that does not answer is waited for until `timeout_ns`.
    """
    count = min(wanted + EXTRA, MOST) if wanted else PLENTY
    counts = _received(hosts, count, timeout_ns)
    return [
        Treatment(f"{host}:{port} window", _shown(wanted or count, count), _shown(got, count), got == (wanted or count))
        for (host, port), got in zip(hosts, counts, strict=True)
    ]


def _shown(messages: int, count: int) -> str:
    return "no limit" if messages == count else f"{messages} messages" if messages >= 0 else "no answer"


def _received(hosts: Sequence[tuple[str, int]], count: int, timeout_ns: int) -> list[int]:
    """Return how many of `count` messages each broker hands over; -1 where it does not answer."""
    topic, seen, changed_ns = f"window/{secrets.token_hex(4)}", [0] * len(hosts), perf_counter_ns()

    def counter(at: int) -> Callable[[bytes, bytes, int], None]:
        def take(_topic: bytes, _payload: bytes, _qos: int) -> None:
            nonlocal changed_ns
            seen[at], changed_ns = seen[at] + 1, perf_counter_ns()

        return take

    options = ClientOptions([(topic, 1)], max_inflight=0, holds=True)
    clients = [
        MqttClient(Target(host, port, tcp_nodelay=True), f"{topic}-{at}", options, counter(at))
        for at, (host, port) in enumerate(hosts)
    ]
    end_ns = perf_counter_ns() + timeout_ns
    while not all(client.subscribed for client in clients) and perf_counter_ns() < end_ns:
        wait(clients, perf_counter_ns() + STEP_NS)
    answer = [client.subscribed for client in clients]
    for client, subscribed in zip(clients, answer, strict=True):
        for _ in range(count if subscribed else 0):
            client.publish(topic, b"window", 1)
    changed_ns = perf_counter_ns()
    end_ns = changed_ns + timeout_ns
    while perf_counter_ns() < min(end_ns, changed_ns + QUIET_NS):
        wait(clients, perf_counter_ns() + STEP_NS)
    for client in clients:
        client.close()
    return [got if subscribed else -1 for got, subscribed in zip(seen, answer, strict=True)]
