"""An MQTT client driven by one thread, with a time stamp where bytes enter and leave the socket.

A network thread of its own costs a context switch each way (see bench/README.md); here the caller's thread waits in
select(), reads and writes. paho keeps the session; messages at QoS 0, and those that arrive at QoS 1, bypass it.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

import paho.mqtt.client as mqtt
from paho.mqtt import MQTTException
from paho.mqtt.reasoncodes import ReasonCode

from looplab.mqtt.connection_errors import describe_end, describe_loss, describe_refusal
from looplab.mqtt.dial import Dialler, PahoClient, Target
from looplab.mqtt.packets import PUBACK, PUBREC, V3_1_1, V5, parse_publish, publish_packet
from looplab.mqtt.stamped_socket import StampedSocket

KEEPALIVE_S = 60
# Messages at QoS 1 and 2 that may be unconfirmed at a time, paho's default; 0 for no limit.
MAX_INFLIGHT = 20
# How often `wait` sees to a connection that is there, or is being made.
MAINTAIN_NS, RECONNECT_NS = 500_000_000, 5_000_000
# How often `wait_for` asks whether it is done.
STEP_NS = 20_000_000
# What paho and `parse_publish` raise for a malformed packet.
_NOT_MQTT = (ValueError, LookupError, TypeError, struct.error, MQTTException)


def wait_for(clients: Sequence[MqttClient], done: Callable[[], bool], timeout_s: float) -> bool:
    """Handle the MQTT of all `clients` until `done` returns True; return False after `timeout_s`."""
    end_ns = perf_counter_ns() + int(timeout_s * 1e9)
    while not done():
        if perf_counter_ns() > end_ns:
            return False
        wait(clients, perf_counter_ns() + STEP_NS)
    return True


def wait(clients: Sequence[MqttClient], until_ns: int, others: Sequence[int] | None = None) -> list[int]:
    """Handle the MQTT of all `clients` until `until_ns` (monotonic ns).

    With `others` (file descriptors, possibly none) return as soon as anything arrived, after MQTT was served; the
    result is those of `others` that are readable.
    """
    while True:
        now = perf_counter_ns()
        due = until_ns
        watched: list[Any] = list(others or ())
        writers: list[StampedSocket] = []
        for client in clients:
            due = min(due, client.maintain(now))
            if client.sock is not None:
                if client.sock.departing:
                    client.sock.take_departures()
                watched.append(client.sock)
                if client.wants_write:
                    writers.append(client.sock)
        ready, writable, _ = select.select(watched, writers, (), (due - now) / 1e9 if due > now else 0)
        for client in clients:
            client.serve(ready, writable)
        if others is not None and ready:
            return [source for source in ready if source in others]
        if perf_counter_ns() >= until_ns:
            return []


@dataclass(frozen=True)
class ClientOptions:
    """What a client asks of its broker: `subscriptions` are (topic, qos).

    The broker publishes the last `will` 1.5 x `keepalive_s` after the last packet of a client whose network is gone.
    A `persistent` session outlives its connection at the broker. One that `holds` hands on each message when it
    arrives, also at QoS 2, and confirms none: within `on_message`, `message_id` is what `acknowledge` takes later.
    With `topic_alias`, of MQTT 5 alone, a topic that repeats the one before it is not sent again.
    """

    subscriptions: Sequence[tuple[str, int]] = ()
    will: tuple[str, bytes] | None = None
    keepalive_s: int = KEEPALIVE_S
    max_inflight: int = MAX_INFLIGHT
    persistent: bool = False
    holds: bool = False
    topic_alias: bool = False


class MqttClient:
    """One MQTT 3.1.1 client on one thread, which `wait` drives; for MQTT 5: client_5.py.

    `on_message(topic, payload, qos)` (topic as bytes) must not publish: paho holds its callback lock there.
    `last_error` explains to a person why there is no connection. Times are monotonic ns.
    """

    # Of MQTT 5: the properties of a message within `on_message`; whether topic aliases are used.
    properties = b""
    topic_alias = False
    _parse: Callable[[bytes], tuple[bytes, bytes, bytes]] = staticmethod(parse_publish)
    _packet: Callable[[bytes, bytes, bool], bytes] = staticmethod(publish_packet)

    def __init__(
        self,
        target: Target,
        client_id: str,
        options: ClientOptions,
        on_message: Callable[[bytes, bytes, int], None],
        on_connect: Callable[[], None] = lambda: None,
    ) -> None:
        self.sock: StampedSocket | None = None
        self.connected = False
        self.disconnects = 0
        # Why the last connection that was there was lost.
        self.last_loss = ""
        self.last_error = ""
        self.message_id = b""
        self._options, self._holds = options, options.holds
        self._on_message, self._on_connect = on_message, on_connect
        # The QoS that the broker granted by topic, 128 for a refusal, and the subscriptions without its answer by id.
        self.granted: dict[str, int] = {}
        self._asked: dict[int | None, str] = {}
        # Between the broker's acceptance and on_connect.
        self._announcing = False
        self._early: list[tuple[str, bytes, int, bool]] = []
        self._refused = False
        self._closing = False
        self.target, self._dialler = target, Dialler(target)
        self._maintain_ns = 0
        self._paho = paho = self._paho_client(client_id)
        paho.on_message = self._received
        paho.on_connect = self._answered
        paho.on_subscribe = self._confirmed
        paho.on_disconnect = self._lost
        paho.max_inflight_messages_set(options.max_inflight)
        paho.connect_async(target.host, target.port, options.keepalive_s, **paho.start)
        if options.will is not None:
            paho.will_set(*options.will, qos=1, retain=True)

    def _paho_client(self, client_id: str) -> PahoClient:
        return PahoClient(client_id, protocol=mqtt.MQTTv311, clean_session=not self._options.persistent)

    @property
    def version(self) -> str:
        """The version of MQTT in which the broker answered this client's CONNECT, "" without an answer."""
        length = self.sock.first[1:] if self.sock and self.connected else b""
        return "" if not length else V3_1_1 if length == b"\2" else V5

    @property
    def subscribed(self) -> bool:
        """Whether the broker has confirmed every subscription."""
        return self.connected and not self._asked

    @property
    def wants_write(self) -> bool:
        """Whether anything waits for the socket to take it."""
        return self._paho.want_write() or bool(self.sock is not None and self.sock.unsent)

    def publish(self, topic: str, payload: bytes, qos: int = 0, retain: bool = False, properties: bytes = b"") -> bool:
        """Send now; False if there is no connection (paho keeps QoS 1 and 2 and sends them later).

        MQTT 3.1.1 has no `properties`, and leaves them out.
        """
        sock = self.sock
        if qos and not self.connected and sock is not None:
            # paho would send it before the broker has accepted this client, and so before it has subscribed again:
            # the answer could come too early.
            self._early.append((topic, payload, qos, retain))
            return False
        if qos or sock is None or not self.connected or sock.unsent or self._paho.want_write():
            return self._paho.publish(topic, payload, qos, retain).rc == mqtt.MQTT_ERR_SUCCESS
        try:
            sock.send(self._packet(topic.encode(), payload, retain))
        except OSError:
            # The next read reports the loss of the connection.
            return False
        return True

    def acknowledge(self, message_ids: Sequence[bytes], qos: int) -> bool:
        """Confirm held messages; False while the socket takes nothing. What is not confirmed comes again.

        At QoS 2 this is the PUBREC: the broker may forget the payload from then on.
        """
        if self.sock is None or not qos:
            return True
        start = PUBACK if qos == 1 else PUBREC
        try:
            self.sock.send(b"".join(start + one for one in message_ids))
        except BlockingIOError:
            return False
        except OSError:
            # The next read reports the loss of the connection.
            return True
        return True

    def wait(self, until_ns: int, others: Sequence[int] | None = None) -> list[int]:
        """Handle MQTT until `until_ns`, see the function `wait`."""
        return wait((self,), until_ns, others)

    def connect(self, timeout_s: float) -> bool:
        """Wait until the broker has accepted this client; False after `timeout_s`."""
        return wait_for((self,), lambda: self.connected, timeout_s)

    def close(self) -> None:
        """Disconnect politely (no last will)."""
        self._closing = True
        if self.sock is not None:
            self._paho.disconnect()
        if self.sock is not None:
            self._write(self.sock)

    def maintain(self, now: int) -> int:
        """Reconnect or keep alive if that is due at `now`; return when the next time is."""
        if now >= self._maintain_ns:
            if self.sock is None:
                self._maintain_ns = now + RECONNECT_NS
                self._reconnect()
            else:
                self._maintain_ns = now + MAINTAIN_NS
                # paho knows nothing of the messages that bypass it, and would ping in the middle of them.
                if now - min(self.sock.sent_ns, self.sock.received_ns) > self._options.keepalive_s * 500_000_000:
                    self._paho.loop_misc()
        return self._maintain_ns

    def serve(self, readable: Sequence[object], writable: Sequence[object]) -> None:
        """Read and write if select() found this client's socket ready."""
        sock = self.sock
        if sock is None:
            return
        if sock in writable:
            self._write(sock)
        if sock in readable and self.sock is sock:
            try:
                self._read(sock)
            except _NOT_MQTT as error:
                self._hang_up(sock, error)

    def _write(self, sock: StampedSocket) -> None:
        if sock.unsent:
            # The next read reports what went wrong.
            with contextlib.suppress(OSError):
                sock.flush()
        self._paho.loop_write()

    def _read(self, sock: StampedSocket) -> None:
        """Hand each packet that has arrived to `on_message` or to paho."""
        for packet in sock.receive():
            sock.current = packet
            if not self._bypasses_paho(packet[0]):
                sock.packet = packet
                self._paho.loop_read()
                if self.sock is not sock:
                    return
                self._announce()
                continue
            topic, self.message_id, payload = self._parse(packet)
            self._on_message(topic, payload, packet[0] >> 1 & 3)
            if self.message_id and not self._holds:
                with contextlib.suppress(OSError):
                    sock.send(PUBACK + self.message_id)
        if sock.ended:
            self._paho.loop_read()
            return
        if self._paho.want_write():
            self._paho.loop_write()

    def _announce(self) -> None:
        """Send what waited for a connection; announce it once it is subscribed, before a message of the same read."""
        while self._announcing and self._early:
            self._paho.publish(*self._early.pop(0))
        if self._announcing and self.subscribed:
            self._announcing = False
            self._on_connect()

    def _bypasses_paho(self, first: int) -> bool:
        """Return whether a packet with this first byte is a PUBLISH at QoS 0, or 1 if nothing waits that its
        acknowledgement would overtake; any PUBLISH where this client holds them."""
        if first & 0xF0 != 0x30 or not self.connected:
            return False
        return self._holds or not (first & 4 or (first & 2 and self.wants_write))

    def _hang_up(self, sock: StampedSocket, error: Exception) -> None:
        """End a connection to something that sends malformed packets; a new attempt follows.

        paho would stumble over the same packet at each further read, until its keepalive has run out.
        """
        self.last_error = f"{self.target} sent bytes that are not MQTT ({error})"
        # Close the socket first, so that no DISCONNECT leaves and the broker publishes the last will.
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
        self._paho.disconnect()

    def _reconnect(self) -> None:
        """Take over the socket of an attempt that has succeeded."""
        if self._closing:
            return
        self.sock, error = self._dialler.take()
        self.last_error = error or self.last_error
        if self.sock is None:
            return
        self._refused = False
        if pairing := self._dialler.pairing:
            self._paho.username_pw_set(pairing.user, pairing.password)
        self._paho.next_socket = self.sock
        try:
            self._paho.reconnect()
        except OSError as error:
            self.last_error = str(error)
            self.sock = None

    def _answered(self, _client: object, _data: object, _flags: object, reason: ReasonCode, _p: object) -> None:
        """Note whether the broker accepts this client."""
        if reason.is_failure:
            self._refused = True
            self.last_error = f"{self.target}: {describe_refusal(str(reason), self._dialler.pairing)}"
            return
        self.connected = self._announcing = True
        self._dialler.accepted()
        # Subscribe now: paho next sends what waits at QoS 1 and 2, and its answers must find this client subscribed.
        self._asked = {self._paho.subscribe(topic, qos)[1]: topic for topic, qos in self._options.subscriptions}

    def _confirmed(
        self, _client: object, _data: object, number: int, granted: Sequence[ReasonCode], _p: object
    ) -> None:
        """Note the QoS of a SUBACK."""
        if (topic := self._asked.pop(number, None)) is not None:
            self.granted[topic] = granted[0].value

    def _lost(self, _client: object, _data: object, _flags: object, _reason: object, _p: object) -> None:
        if self.connected and not self._closing:
            self.disconnects += 1
            if self.sock is not None:
                self.last_loss = describe_loss(self.sock.error, ended=self.sock.ended)
        if not self.connected and not self._refused and self.sock is not None:
            self.last_error = f"{self.target}: {describe_end(self.sock.first)}"
        self.connected = self._announcing = False
        self.sock = None
        self._maintain_ns = 0

    def _received(self, _client: object, _data: object, message: mqtt.MQTTMessage) -> None:
        self._on_message(message.topic.encode(), message.payload, message.qos)
