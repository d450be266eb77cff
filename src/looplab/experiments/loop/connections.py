"""The controller's connections to the broker: one, or one to publish with and one to hear answers with."""

from collections.abc import Callable

from looplab.experiments.loop.protocol import TOPIC_REQUEST, TWO
from looplab.mqtt.client import ClientOptions, MqttClient, wait, wait_for
from looplab.mqtt.dial import Target
from looplab.mqtt.stamped_socket import StampedSocket


class Connections:
    """`subscriber` hears the answers; with two connections the publisher hears its own requests, as printed.

    The publisher's sends are stamped on its socket, arriving answers on the subscriber's. Both are driven by the
    caller's thread, and both speak as one client for disconnects.
    """

    def __init__(
        self,
        number: str,
        target: Target,
        token: str,
        options: ClientOptions,
        received: Callable[[bytes, bytes, int], None],
        connected: Callable[[], None],
    ) -> None:
        self.subscriber = self.publisher = MqttClient(target, f"controller-{token}", options, received, connected)
        if number == TWO:
            own = ClientOptions([(TOPIC_REQUEST, 0)])
            self.publisher = MqttClient(target, f"publisher-{token}", own, lambda *_: None, connected)
        self.clients = list(dict.fromkeys((self.subscriber, self.publisher)))

    @property
    def sock(self) -> StampedSocket | None:
        """The socket that requests leave by."""
        return self.publisher.sock

    @property
    def connected(self) -> bool:
        return all(client.connected for client in self.clients)

    @property
    def disconnects(self) -> int:
        return sum(client.disconnects for client in self.clients)

    @property
    def granted(self) -> dict[str, int]:
        """The QoS that the broker granted, by topic."""
        return {topic: qos for client in self.clients for topic, qos in client.granted.items()}

    @property
    def last_error(self) -> str:
        return next((client.last_error for client in self.clients if not client.connected), "")

    def publish(self, topic: str, payload: bytes, qos: int = 0) -> bool:
        return self.publisher.publish(topic, payload, qos)

    def wait(self, until_ns: int) -> None:
        """Handle MQTT until `until_ns`."""
        wait(self.clients, until_ns)

    def connect(self, timeout_s: float) -> bool:
        """Wait until the broker has accepted each client; False after `timeout_s`."""
        return wait_for(self.clients, lambda: self.connected, timeout_s)

    def close(self) -> None:
        for client in self.clients:
            client.close()
