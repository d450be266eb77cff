"""The same client with MQTT 5: properties, topic alias, and reasons that the broker gives."""

from typing import Any, ClassVar

import paho.mqtt.client as mqtt
from paho.mqtt.enums import MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.reasoncodes import ReasonCode

from looplab.mqtt.client import MqttClient
from looplab.mqtt.dial import PahoClient
from looplab.mqtt.packets import TOPIC_ALIAS, parse_publish_5, publish_packet, with_length

_DISCONNECT = b"\xe0"
# An alias is a property of three bytes; with it, the length of all is still one byte.
_ALIAS = b"%c\0\1" % TOPIC_ALIAS
_MOST_PROPERTIES = 0x7F - len(_ALIAS)


class _InPayload:
    """Properties that are part of a payload already."""

    def pack(self) -> bytes:
        return b""


_IN_PAYLOAD = _InPayload()


class _Paho5(PahoClient):
    """The payload that it is given begins with the properties: in a PUBLISH the one follows the other."""

    # Each session ends with its connection, as one of MQTT 3.1.1 does here.
    start: ClassVar[dict[str, Any]] = {"clean_start": True}

    def __init__(self, client_id: str) -> None:
        super().__init__(client_id, protocol=mqtt.MQTTv5)
        self.has_alias = False
        # The topic that alias 1 stands for on this connection.
        self.aliased = b""

    def shorten(self, topic: bytes, payload: bytes) -> tuple[bytes, bytes]:
        """Return topic and payload as they leave now, with an alias in the topic's place if it has one."""
        if not self.has_alias or payload[0] > _MOST_PROPERTIES:
            return topic, payload
        known, self.aliased = topic == self.aliased, topic
        return b"" if known else topic, b"%c%b%b" % (payload[0] + len(_ALIAS), _ALIAS, payload[1:])

    def limit_inflight(self, allowed: int) -> None:
        """Have no more messages unconfirmed than the broker receives."""
        # Private: once connected, paho refuses a new limit, though MQTT 5 names it in the CONNACK.
        self._max_inflight_messages = min(self._max_inflight_messages or allowed, allowed)

    def _send_publish(
        self,
        mid: int,
        topic: bytes,
        payload: bytes | bytearray = b"",
        qos: int = 0,
        retain: bool = False,
        dup: bool = False,
        info: mqtt.MQTTMessageInfo | None = None,
        properties: Any = None,
    ) -> MQTTErrorCode:
        # Private: all that paho sends, and sends again, passes here.
        topic, payload = self.shorten(topic, bytes(payload))
        return super()._send_publish(mid, topic, payload, qos, retain, dup, info, properties=_IN_PAYLOAD)  # type: ignore[arg-type]


class Mqtt5Client(MqttClient):
    """A client of MQTT 5; it accepts no topic alias, so that what comes names its topic. A session never persists."""

    _paho: _Paho5

    def _paho_client(self, client_id: str) -> _Paho5:
        return _Paho5(client_id)

    def publish(self, topic: str, payload: bytes, qos: int = 0, retain: bool = False, properties: bytes = b"") -> bool:
        return super().publish(topic, with_length(properties) + payload, qos, retain)

    def _packet(self, topic: bytes, payload: bytes, retain: bool) -> bytes:
        return publish_packet(*self._paho.shorten(topic, payload), retain)

    def _parse(self, packet: bytes) -> tuple[bytes, bytes, bytes]:
        topic, message_id, self.properties, payload = parse_publish_5(packet)
        return topic, message_id, payload

    def _received(self, client: object, data: object, message: mqtt.MQTTMessage) -> None:
        self.properties = message.properties.pack() if message.properties else b"\0"  # type: ignore[no-untyped-call]
        super()._received(client, data, message)

    def _answered(self, client: object, data: object, flags: object, reason: ReasonCode, properties: Any) -> None:
        """Keep to the broker's limits, and note whether it accepts this client."""
        paho = self._paho
        self.topic_alias = self._options.topic_alias and getattr(properties, "TopicAliasMaximum", 0) > 0
        paho.has_alias, paho.aliased = self.topic_alias, b""
        if (allowed := getattr(properties, "ReceiveMaximum", None)) is not None:
            paho.limit_inflight(allowed)
        super()._answered(client, data, flags, reason, properties)

    def _lost(self, client: object, data: object, flags: object, reason: object, properties: object) -> None:
        packet = self.sock.current if self.sock else b""
        super()._lost(client, data, flags, reason, properties)
        # Until it is accepted again, no alias is known.
        self._paho.has_alias = False
        if packet[:1] == _DISCONNECT and len(packet) > 2:
            self.last_loss = f"the broker ended it: {ReasonCode(PacketTypes.DISCONNECT, identifier=packet[2])}"
