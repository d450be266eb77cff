"""The controller's connections to the broker: one, or one to publish with and one to hear answers with."""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from looplab.errors import UsageError
from looplab.experiments.loop.parameters import LAB, LoopParameters
from looplab.experiments.loop.protocol import (
    ONE,
    TOPIC_ANSWER,
    TOPIC_BRIDGE_INFO,
    TOPIC_BRIDGE_MERGED,
    TOPIC_BRIDGE_STATUS,
    TOPIC_REQUEST,
    TOPIC_ROBOT_STATUS,
    TWO,
    is_correlated,
    request_properties,
    subscription_qos,
)
from looplab.mqtt.client import ClientOptions, MqttClient
from looplab.mqtt.client_5 import Mqtt5Client
from looplab.mqtt.dial import Target
from looplab.mqtt.packets import V5
from looplab.mqtt.paired import PairedTarget
from looplab.mqtt.pairing import read_pairing
from looplab.mqtt.stamped_socket import StampedSocket
from looplab.run.clients import Clients
from looplab.treatments.broker import PLAIN_CONTROLLER
from looplab.treatments.judgement import Treatment, compared

# Compose mounts it there; `prepare` makes it.
PAIRING = "/run/looplab/controller"
# What the controller hears: messages and their QoS.
Received = Callable[[bytes, bytes, int], None]


class ControllerConnections(Clients):
    """`subscriber` hears the answers; with two connections the publisher hears its own requests, as printed.

    The publisher's sends are stamped on its socket, arriving answers on the subscriber's.
    """

    kind: type[MqttClient] = MqttClient

    def __init__(
        self,
        number: str,
        target: Target,
        token: str,
        options: ClientOptions,
        received: Received,
        connected: Callable[[], None],
    ) -> None:
        self._options, self._versions = options, set[str]()
        heard = self._handler(received, token)
        self.subscriber = self.publisher = self.kind(target, f"controller-{token}", options, heard, connected)
        if number == TWO:
            own = replace(options, subscriptions=[(TOPIC_REQUEST, 0)])
            self.publisher = self.kind(target, f"publisher-{token}", own, lambda *_: None, connected)
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

    def _handler(self, received: Received, _token: str) -> Received:
        """Return what each message is given to; `received` stamps it."""
        return received

    def connect(self, timeout_s: float) -> bool:
        connected = super().connect(timeout_s)
        self._versions = {client.version or "unknown" for client in self.clients}
        return connected

    def judge_version(self, parameters: LoopParameters) -> Iterator[Treatment]:
        """Judge the version by how the broker answered each CONNECT: its CONNACK has the form of that version."""
        yield compared("controller MQTT version", parameters.mqtt_version, self._versions)

    def meter(self) -> Callable[[], int | None]:
        """Return a function that returns how many bytes all sockets have sent and received since now.

        It returns None if a connection was lost, or the kernel does not count.
        """
        lost, before = self.disconnects, self._moved_bytes()

        def moved() -> int | None:
            after = self._moved_bytes()
            return None if before is None or after is None or self.disconnects > lost else after - before

        return moved

    def _moved_bytes(self) -> int | None:
        each = [client.sock.moved_bytes if client.sock else None for client in self.clients]
        return None if None in each else sum(filter(None, each))


class Mqtt5Connections(ControllerConnections):
    """The same with MQTT 5's request and response, and topic alias."""

    kind = Mqtt5Client

    _uncorrelated = 0

    def connect(self, timeout_s: float) -> bool:
        connected = super().connect(timeout_s)
        if connected and self._options.topic_alias and not self.publisher.topic_alias:
            raise UsageError(
                "TOPIC_ALIAS=on: this broker takes no topic alias (its Topic Alias Maximum is 0).",
                "Leave out TOPIC_ALIAS, or take another BROKER.",
            )
        return connected

    def judge_version(self, parameters: LoopParameters) -> Iterator[Treatment]:
        yield from super().judge_version(parameters)
        wrong = f"{self._uncorrelated} without their request's" if self._uncorrelated else "their request's"
        yield compared("answers' correlation data", "their request's", wrong)

    def publish(self, topic: str, payload: bytes, qos: int = 0) -> bool:
        return self.publisher.publish(topic, payload, qos, properties=request_properties(payload))

    def _handler(self, received: Received, token: str) -> Received:
        answers, own = TOPIC_ANSWER.encode(), token.encode() + b","

        def handle(topic: bytes, payload: bytes, qos: int) -> None:
            # Stamp it before all else.
            received(topic, payload, qos)
            if topic == answers and payload.startswith(own):
                self._uncorrelated += not is_correlated(payload, self.subscriber.properties)

        return handle


def controller_connections(
    parameters: LoopParameters, token: str, received: Received, connected: Callable[[], None]
) -> ControllerConnections:
    """Return the controller's connections; by a pairing file with a robot elsewhere or TLS. Raises LabError."""
    host, port, pairing = parameters.broker_host, parameters.broker_port, None
    if parameters.broker_tls:
        pairing = Path(os.environ.get("BROKER_PAIRING") or PAIRING)
        access = read_pairing(pairing)
        host, port = access.host, access.port
    elif parameters.robot == "remote":
        pairing = PLAIN_CONTROLLER
    # Subscribe to each by name: RabbitMQ sends no retained message to a wildcard. The bridge's status comes last:
    # by then its identity is known.
    news = (TOPIC_BRIDGE_INFO, TOPIC_BRIDGE_MERGED, TOPIC_ROBOT_STATUS, TOPIC_BRIDGE_STATUS)
    answers = [(TOPIC_ANSWER, subscription_qos(parameters.qos_legs, max(parameters.qos)))]
    number = parameters.connections
    if parameters.clients != LAB:
        # Other clients have their own connections; this one hears the bridge alone.
        answers, number = [], ONE
    options = ClientOptions([*answers, *((topic, 1) for topic in news)], topic_alias=parameters.topic_alias)
    target = PairedTarget(host, port, parameters.tcp_nodelay, pairing)
    kind = Mqtt5Connections if parameters.mqtt_version == V5 else ControllerConnections
    return kind(number, target, token, options, received, connected)
