"""The controller's connections to the broker: one, or one to publish with and one to hear answers with."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from looplab.errors import UsageError
from looplab.experiments.loop.parameters import LAB, LoopParameters
from looplab.experiments.loop.protocol import (
    TOPIC_ANSWER,
    TOPIC_BRIDGE_INFO,
    TOPIC_BRIDGE_MERGED,
    TOPIC_BRIDGE_STATUS,
    TOPIC_REQUEST,
    TOPIC_ROBOT_STATUS,
    TWO,
    request_properties,
    subscription_qos,
)
from looplab.mqtt.client import ClientOptions, MqttClient
from looplab.mqtt.client_5 import Mqtt5Client
from looplab.mqtt.dial import Target
from looplab.mqtt.packets import V5
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

    The publisher's sends are stamped on its socket, arriving answers on the subscriber's. Raises LabError if a pairing
    file cannot be read.
    """

    def __init__(
        self, parameters: LoopParameters, token: str, received: Received, connected: Callable[[], None]
    ) -> None:
        self._parameters, self._versions = parameters, set[str]()
        # Subscribe to each by name: RabbitMQ sends no retained message to a wildcard. The bridge's status comes last:
        # by then its identity is known.
        news = (TOPIC_BRIDGE_INFO, TOPIC_BRIDGE_MERGED, TOPIC_ROBOT_STATUS, TOPIC_BRIDGE_STATUS)
        answers = [(TOPIC_ANSWER, subscription_qos(parameters.qos_legs, max(parameters.qos)))]
        # Other clients have their own connections; this one hears the bridge alone.
        is_lab = parameters.clients == LAB
        subscriptions = [*(answers if is_lab else []), *((topic, 1) for topic in news)]
        options = ClientOptions(subscriptions, topic_alias=parameters.topic_alias)
        kind, target = Mqtt5Client if parameters.mqtt_version == V5 else MqttClient, _target(parameters)
        self.subscriber = self.publisher = kind(target, f"controller-{token}", options, received, connected)
        if is_lab and parameters.connections == TWO:
            to_publish = replace(options, subscriptions=[(TOPIC_REQUEST, 0)])
            self.publisher = kind(target, f"publisher-{token}", to_publish, lambda *_: None, connected)
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
        properties = request_properties(payload) if self._parameters.mqtt_version == V5 else b""
        return self.publisher.publish(topic, payload, qos, properties=properties)

    def connect(self, timeout_s: float) -> bool:
        connected = super().connect(timeout_s)
        self._versions = {client.version or "unknown" for client in self.clients}
        if connected and self._parameters.topic_alias and not self.publisher.topic_alias:
            raise UsageError(
                "TOPIC_ALIAS=on: this broker takes no topic alias (its Topic Alias Maximum is 0).",
                "Leave out TOPIC_ALIAS, or take another BROKER.",
            )
        return connected

    def judge_version(self) -> Treatment:
        """Judge the version by how the broker answered each CONNECT: its CONNACK has the form of that version."""
        return compared("controller MQTT version", self._parameters.mqtt_version, self._versions)

    @property
    def moved_bytes(self) -> int | None:
        """Bytes that all sockets have sent and received; None without a connection, or if the kernel does not count."""
        each = [client.sock.moved_bytes if client.sock else None for client in self.clients]
        return None if None in each else sum(filter(None, each))


def _target(parameters: LoopParameters) -> Target:
    """Return the broker, by a pairing file with a robot elsewhere or TLS."""
    host, port, pairing = parameters.broker_host, parameters.broker_port, None
    if parameters.broker_tls:
        pairing = Path(os.environ.get("BROKER_PAIRING") or PAIRING)
        access = read_pairing(pairing)
        host, port = access.host, access.port
    elif parameters.robot == "remote":
        pairing = PLAIN_CONTROLLER
    return Target(host, port, parameters.tcp_nodelay, pairing)
