"""The controller's connections to the broker: one, or one to publish with and one to hear answers with."""

from collections.abc import Callable

from looplab.experiments.loop.protocol import TOPIC_REQUEST, TWO
from looplab.mqtt.client import ClientOptions, MqttClient
from looplab.mqtt.dial import Target
from looplab.mqtt.stamped_socket import StampedSocket
from looplab.run.clients import Clients


class ControllerConnections(Clients):
    """`subscriber` hears the answers; with two connections the publisher hears its own requests, as printed.

    The publisher's sends are stamped on its socket, arriving answers on the subscriber's.
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
        super().__init__((self.subscriber, self.publisher))

    @property
    def sock(self) -> StampedSocket | None:
        """The socket that requests leave by."""
        return self.publisher.sock

    @property
    def granted(self) -> dict[str, int]:
        """The QoS that the broker granted, by topic."""
        return {topic: qos for client in self.clients for topic, qos in client.granted.items()}

    def publish(self, topic: str, payload: bytes, qos: int = 0) -> bool:
        return self.publisher.publish(topic, payload, qos)
