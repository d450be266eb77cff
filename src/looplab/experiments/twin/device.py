"""The devices: a connection each to every broker, all on one thread, and numbered messages spread over the brokers."""

from collections.abc import Sequence
from time import perf_counter_ns
from typing import Any

from looplab.experiments.twin.message import payload, topic
from looplab.mqtt.client import ClientOptions, MqttClient
from looplab.mqtt.dial import Target
from looplab.mqtt.stamped_socket import StampedSocket
from looplab.run.clients import Clients
from looplab.run.open_loop import Messages, OpenLoop
from looplab.run.samples import SampleStore


class Devices(Clients):
    """Sends message k from device k % devices to broker (k / devices) % brokers, as looplab.run.open_loop asks.

    A broker that is away gets its messages at QoS 1 and 2 once it is back. `name` tells them from those of other
    workers. Message number `first` has the first row of the samples.
    """

    first = 0

    def __init__(
        self,
        brokers: Sequence[tuple[str, int]],
        devices: int,
        token: str,
        *,
        length: int,
        tcp_nodelay: bool,
        name: str = "",
    ) -> None:
        self.sock: StampedSocket | None = None
        self._devices, self._brokers = devices, len(brokers)
        self._token, self._length = token.encode(), length
        self._topics: list[str] = []
        options = ClientOptions(max_inflight=0)
        # The clients are in the order in which messages use them.
        clients = [
            MqttClient(Target(host, port, tcp_nodelay), f"device-{token}-{name}{broker}-{device}", options, _ignore)
            for broker, (host, port) in enumerate(brokers)
            for device in range(devices)
        ]
        super().__init__(clients)

    def begin(self, token: str, cell: int) -> None:
        """Send to the topics of this cell from now on."""
        self._topics = [topic(token, cell, str(device + 1)) for device in range(self._devices)]

    def place(self, sequence: int) -> tuple[int, int]:
        """Return broker and device of a message, counted from 0."""
        return sequence // self._devices % self._brokers, sequence % self._devices

    def send(self, store: SampleStore, rows: range, interval_ns: int, qos: int, *, sleeps: bool) -> None:
        """Send the messages of `rows`, `interval_ns` apart, and write when each was due and left."""
        messages = Messages("", b"%d", len(rows), 0, sleeps=sleeps)
        OpenLoop(self, store, messages).repetition(rows.start, len(rows), interval_ns, qos)

    def settle(self, _store: SampleStore) -> tuple[list[str], dict[str, Any]]:
        """Return what is wrong with the rows, and what a cell of run.json holds of the devices: nothing."""
        return [], {}

    def publish(self, _topic: str, number: bytes, qos: int) -> bool:
        """Send the message of row `number`; False if it did not leave now."""
        sequence = self.first + int(number)
        broker, device = self.place(sequence)
        client = self.clients[broker * self._devices + device]
        data = payload(self._token, device + 1, sequence, perf_counter_ns(), self._length)
        left = client.publish(self._topics[device], data, qos)
        self.sock = client.sock
        return left


def _ignore(_topic: bytes, _payload: bytes, _qos: int) -> None:
    """No device subscribes."""
