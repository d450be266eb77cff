"""The brokers' own counters ($SYS) over time: a cross-check of the queue, with a resolution of one or two seconds."""

from collections.abc import Callable, Iterator, Sequence
from time import perf_counter_ns
from typing import NamedTuple

from looplab.mqtt.client import ClientOptions, MqttClient
from looplab.mqtt.dial import Target

# The counters by the name that sys.csv gives them.
TOPICS = {
    b"$SYS/broker/publish/messages/received": "publish_received",
    b"$SYS/broker/publish/messages/sent": "publish_sent",
    b"$SYS/broker/store/messages/count": "stored_messages",
}
NAMES = tuple(TOPICS.values())
HEADER = f"interval_ms,brokers,placement,write_mode,qos,repetition,time_ns,broker,{','.join(NAMES)}"


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
