"""The devices: a connection each to every broker, all on one thread, and numbered messages spread over the brokers."""

from time import perf_counter_ns

from looplab.experiments.twin.instance.orders import Order
from looplab.experiments.twin.message import payload, topic
from looplab.mqtt.client import ClientOptions, MqttClient
from looplab.mqtt.dial import Target
from looplab.mqtt.stamped_socket import StampedSocket
from looplab.run.clients import Clients
from looplab.run.open_loop import Messages, OpenLoop
from looplab.run.samples import SampleStore


class Devices(Clients):
    """Sends message k of a cell from device k % devices to broker (k / devices) % brokers, as run.open_loop asks.

    A broker that is away gets its messages at QoS 1 and 2 once it is back. `name` tells them from those of other
    workers. Message number `first` has the first row of the samples.
    """

    first = 0

    def __init__(self, order: Order, name: str = "") -> None:
        self.sock: StampedSocket | None = None
        self._order, self._token = order, order.token.encode()
        self._topics = [topic(order.token, order.cell, str(device + 1)) for device in range(order.devices)]
        options, prefix = ClientOptions(max_inflight=0), f"device-{order.token}-{name}"
        # The clients are in the order in which messages use them, and none subscribes.
        clients = [
            MqttClient(Target(host, port, order.tcp_nodelay), f"{prefix}{broker}-{device}", options, lambda *_: None)
            for broker, (host, port) in enumerate(order.brokers)
            for device in range(order.devices)
        ]
        super().__init__(clients)

    def send(self, store: SampleStore, rows: range, interval_ns: int) -> None:
        """Send the messages of `rows`, `interval_ns` apart, and write when each was due and left."""
        loop = OpenLoop(self, store, Messages("", b"%d", len(rows), 0))
        loop.repetition(rows.start, len(rows), interval_ns, self._order.qos)

    def publish(self, _topic: str, number: bytes, qos: int) -> bool:
        """Send the message of row `number`; False if it did not leave now."""
        sequence, order = self.first + int(number), self._order
        broker, device = sequence // order.devices % len(order.brokers), sequence % order.devices
        client = self.clients[broker * order.devices + device]
        data = payload(self._token, device + 1, sequence, perf_counter_ns(), order.payload_bytes)
        left = client.publish(self._topics[device], data, qos)
        self.sock = client.sock
        return left
