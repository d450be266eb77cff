"""What the brokers show of themselves: their own counters ($SYS) over time, and their window of unconfirmed messages.

The counters are a cross-check of the queue, with a resolution of one or two seconds. The window is how many messages at
QoS 1 a broker hands to a client that confirms none.
"""

import secrets
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter_ns
from typing import NamedTuple

from looplab.experiments.twin import TwinCell
from looplab.mqtt.client import ClientOptions, MqttClient, wait
from looplab.mqtt.dial import Target
from looplab.treatments.judgement import Treatment

# The counters by the name that sys.csv gives them.
TOPICS = {
    b"$SYS/broker/publish/messages/received": "publish_received",
    b"$SYS/broker/publish/messages/sent": "publish_sent",
    b"$SYS/broker/store/messages/count": "stored_messages",
}
NAMES = tuple(TOPICS.values())
HEADER = ",".join([*(key.name for key in TwinCell.key_columns()), "time_ns", "broker", *NAMES])


class Heard(NamedTuple):
    """What a broker reported last of each counter when one of them came; times in ns of the controller's clock."""

    time_ns: int
    broker: int
    values: tuple[int | None, ...]


class BrokerCounters:
    """A subscriber to the counters of each broker, which `looplab.mqtt.client.wait` drives with the devices."""

    def __init__(self, brokers: Sequence[tuple[str, int]], token: str, *, tcp_nodelay: bool) -> None:
        self.heard: list[Heard] = []
        self._latest: dict[int, dict[str, int]] = {at: {} for at in range(len(brokers))}
        options = ClientOptions([(topic.decode(), 0) for topic in TOPICS])
        self.clients = [
            MqttClient(Target(host, port, tcp_nodelay), f"counters-{token}-{at}", options, self._reader(at))
            for at, (host, port) in enumerate(brokers)
        ]

    def _reader(self, broker: int) -> Callable[[bytes, bytes, int], None]:
        def read(topic: bytes, payload: bytes, _qos: int) -> None:
            name = TOPICS.get(topic)
            if name is not None and payload.isdigit():
                latest = self._latest[broker]
                latest[name] = int(payload)
                self.heard.append(Heard(perf_counter_ns(), broker + 1, tuple(map(latest.get, NAMES))))

        return read

    def grown(self, name: str) -> int | None:
        """Return by how much a counter of all brokers grew from the first to the last report; None without two."""
        at, total, seen = NAMES.index(name), 0, False
        for broker in self._latest:
            values = [heard.values[at] for heard in self.heard if heard.broker == broker + 1]
            known = [value for value in values if value is not None]
            if len(known) > 1:
                total, seen = total + known[-1] - known[0], True
        return total if seen else None

    def lines(self, key: str) -> Iterator[str]:
        """Yield the lines of sys.csv; `key` is the cell's columns."""
        for heard in self.heard:
            values = ",".join("" if value is None else str(value) for value in heard.values)
            yield f"{key},{heard.time_ns},{heard.broker},{values}"

    def close(self) -> None:
        for client in self.clients:
            client.close()


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
