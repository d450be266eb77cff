"""An MQTT connection driven by one thread, with a time stamp where bytes enter and leave the socket.

A network thread of its own costs a context switch each way (see bench/README.md); here the caller's
thread waits in select(), reads and writes. Reconnecting alone happens in a helper thread, so that an
open-loop schedule goes on while a broker is away.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter_ns, sleep
from typing import Any

import paho.mqtt.client as mqtt
from paho.mqtt import MQTTException
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
from paho.mqtt.reasoncodes import ReasonCode

from looplab.errors import LabError
from looplab.mqtt import connection_errors as broker_words
from looplab.mqtt.pairing import Pairing, read_pairing

# Under this name for who holds a link's socket.
from looplab.mqtt.stamped_socket import StampedSocket as StampedSocket
from looplab.mqtt.stamped_socket import StampedTlsSocket

RETRY_S = 0.2
CONNECT_TIMEOUT_S = 2.0
KEEPALIVE_S = 60
# Messages at QoS 1 and 2 that may be unconfirmed at a time, paho's default; 0 for as many as there are.
MAX_INFLIGHT = 20
# A peer that went without a word (a cable pulled) is given up after this, and a new connection tried: TCP's own
# doubling pauses go on after the network is back (21 s after a cut of 60 s).
PEER_TIMEOUT_MS = 3000
# What paho raises, besides reporting it, where a packet is malformed.
_NOT_MQTT = (ValueError, LookupError, TypeError, struct.error, MQTTException)
_TCP_OPTIONS = (
    (socket.TCP_KEEPIDLE, 1),
    (socket.TCP_KEEPINTVL, 1),
    (socket.TCP_KEEPCNT, PEER_TIMEOUT_MS // 1000),
    (socket.TCP_USER_TIMEOUT, PEER_TIMEOUT_MS),
)


def wait_all(links: Sequence[Link], until_ns: int) -> None:
    """`Link.wait` for several links on one thread: handle their MQTT until `until_ns` (monotonic ns)."""
    while True:
        now = perf_counter_ns()
        due = min(until_ns, *[link.tend(now) for link in links])
        socks = [link.sock for link in links if link.sock is not None]
        writers = [link.sock for link in links if link.sock is not None and link.client.want_write()]
        readable, writable, _ = select.select(socks, writers, (), (due - now) / 1e9 if due > now else 0)
        for link in links:
            link.serve(readable, writable)
        if perf_counter_ns() >= until_ns:
            return


class _Client(mqtt.Client):
    """paho's client on a socket that somebody else connected."""

    next_socket: StampedSocket | None = None
    _stamped: StampedSocket | None = None

    def _create_socket_connection(self) -> StampedSocket:
        sock, self.next_socket = self.next_socket, None
        if sock is None:
            raise ConnectionError("no connected socket at hand")
        self._stamped = sock
        return sock

    def want_write(self) -> bool:
        return super().want_write() or bool(self._stamped is not None and self._stamped.unsent)

    def loop_write(self) -> MQTTErrorCode:
        if self._stamped is not None and self._stamped.unsent:
            # What went wrong shows at the next reading.
            with contextlib.suppress(OSError):
                self._stamped.flush()
        return super().loop_write()


class Link:
    """One MQTT client on one thread.

    `on_message(topic, payload, qos)` (topic as bytes) is called within `wait`; it must not publish (paho holds its
    callback lock there), but leave that to the caller of `wait`. `subscriptions` is a list of
    (topic, qos). `tcp_nodelay` sets TCP_NODELAY on this end's socket. The broker says the last will 1.5 x
    `keepalive_s` after it last heard of a client whose network is gone. With a `pairing` file the connection has TLS
    and a user; the file is read anew at each attempt. `last_error` is for a person. Times are monotonic ns.
    """

    def __init__(
        self,
        host: str,
        port: int,
        client_id: str,
        *,
        tcp_nodelay: bool,
        subscriptions: list[tuple[str, int]],
        on_message: Callable[[bytes, bytes, int], None],
        will: tuple[str, bytes] | None = None,
        on_connect: Callable[[], None] | None = None,
        keepalive_s: int = KEEPALIVE_S,
        pairing: Path | None = None,
        max_inflight: int = MAX_INFLIGHT,
    ) -> None:
        self.host, self.port = host, port
        self.tcp_nodelay = tcp_nodelay
        self.disconnects = 0
        self.connected = False
        self.subscribed = False
        self.last_error = ""
        self.sock: StampedSocket | None = None
        self._subscriptions = subscriptions
        self._on_message = on_message
        self._on_connect = on_connect
        self._unconfirmed = 0
        self._announce = False
        self._closing = False
        self._connecting: threading.Thread | None = None
        self._pairing_file = pairing
        self._pairing: Pairing | None = None
        self._refused = ""
        self._fresh: StampedSocket | None = None
        self._fruitless = False
        self._misc_due_ns = 0
        # reconnect_on_failure: where a broker refuses this version of MQTT, paho would dial by itself.
        self.client = _Client(
            CallbackAPIVersion.VERSION2, client_id=client_id, protocol=mqtt.MQTTv311, reconnect_on_failure=False
        )
        self.client.on_message = self._received
        self.client.on_connect = self._accepted
        self.client.on_subscribe = self._confirmed
        self.client.on_disconnect = self._lost
        self.client.max_inflight_messages_set(max_inflight)
        self.client.connect_async(host, port, keepalive_s)
        if will is not None:
            self.client.will_set(will[0], will[1], qos=1, retain=True)

    def publish(self, topic: str, payload: bytes, qos: int = 0, retain: bool = False) -> bool:
        """Send now; False where there is no connection (QoS 1 and 2 are kept by paho and sent later)."""
        return self.client.publish(topic, payload, qos, retain).rc == mqtt.MQTT_ERR_SUCCESS

    def wait(self, until_ns: int, others: tuple[int, ...] | None = None) -> list[int]:
        """Handle MQTT until `until_ns` (monotonic ns).

        With `others` (file descriptors, possibly none) it returns as soon as anything arrived, MQTT
        served first, so that the caller can act on it; the result is those of them that are readable.
        """
        while True:
            now = perf_counter_ns()
            if now >= self._misc_due_ns:
                self._housekeeping(now)
            sock = self.sock
            wait_ns = min(until_ns, self._misc_due_ns) - now
            watched: tuple[Any, ...] = (sock, *(others or ())) if sock is not None else others or ()
            writers = (sock,) if sock is not None and self.client.want_write() else ()
            ready, writable, _ = select.select(watched, writers, (), wait_ns / 1e9 if wait_ns > 0 else 0)
            if writable:
                self.client.loop_write()
            if sock is not None and sock in ready:
                self._read(sock)
            if others is not None and ready:
                return [fd for fd in ready if fd is not sock]
            if perf_counter_ns() >= until_ns:
                return []

    def connect(self, timeout_s: float) -> bool:
        """Wait until the broker has accepted this client; False after `timeout_s`."""
        end_ns = perf_counter_ns() + int(timeout_s * 1e9)
        while not self.connected and perf_counter_ns() < end_ns:
            self.wait(perf_counter_ns() + 20_000_000)
        return self.connected

    def close(self) -> None:
        """Disconnect politely (no last will)."""
        self._closing = True
        if self.sock is not None:
            self.client.disconnect()
        if self.sock is not None:
            self.client.loop_write()

    def tend(self, now: int) -> int:
        """Do what is due besides reading and writing; the time of the next such look."""
        if now >= self._misc_due_ns:
            self._housekeeping(now)
        return self._misc_due_ns

    def serve(self, readable: Sequence[object], writable: Sequence[object]) -> None:
        """Read and write where select() found this link's socket ready."""
        sock = self.sock
        if sock is None:
            return
        if sock in writable:
            self.client.loop_write()
        if sock in readable and self.sock is sock:
            self._read(sock)

    def _read(self, sock: StampedSocket) -> None:
        read = self.client.loop_read
        try:
            read()
            while sock.pending and self.sock is sock:
                read()
        except _NOT_MQTT as error:
            self._hang_up(sock, error)
            return
        if self.client.want_write() and self.sock is sock:
            self.client.loop_write()
        if self._announce:
            self._announce = False
            if self._on_connect is not None:
                self._on_connect()

    def _hang_up(self, sock: StampedSocket, error: Exception) -> None:
        """Who sends what is no MQTT is no broker: the connection is ended at once, and a new one is tried.

        paho would stumble over the same packet at each further reading, until its keepalive has run out.
        """
        self.last_error = f"{self.host}:{self.port} sent what is no MQTT ({error})"
        sock.pending = b""
        # First, so that no goodbye gets out: the last will holds.
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
        self.client.disconnect()

    def _housekeeping(self, now: int) -> None:
        self._misc_due_ns = now + 500_000_000
        if self.sock is None:
            self._misc_due_ns = now + 5_000_000
            self._reconnect()
        else:
            self.client.loop_misc()

    def _reconnect(self) -> None:
        # `_fresh` is looked at only once the helper has ended, so that no second connection is opened.
        if self._closing or (self._connecting is not None and self._connecting.is_alive()):
            return
        fresh, self._fresh = self._fresh, None
        if fresh is None:
            self._connecting = threading.Thread(target=self._dial, args=(self._fruitless,), daemon=True)
            self._connecting.start()
            return
        self._fruitless = True
        self._refused = ""
        self.sock = self.client.next_socket = fresh
        if self._pairing is not None:
            self.client.username_pw_set(self._pairing.user, self._pairing.password)
        try:
            self.client.reconnect()
        except OSError as error:
            self.last_error = str(error)
            self.sock = None

    def _dial(self, slowly: bool) -> None:
        """Open a connection; runs in the helper thread and touches nothing but `_fresh` and `_pairing`.

        `slowly` after a connection that no broker accepted: something listens there, but does not serve.
        """
        if slowly:
            sleep(RETRY_S)
        try:
            self._fresh = self._connected()
        except LabError as error:
            self.last_error = error.message
        except OSError as error:
            self.last_error = f"{self.host}:{self.port}: {broker_words.connecting(error)}"
        if self._fresh is None:
            sleep(RETRY_S)

    def _connected(self) -> StampedSocket:
        """A socket that is ready for MQTT. Raises OSError (ssl.SSLError is one), LabError for the pairing file."""
        self._pairing = read_pairing(self._pairing_file) if self._pairing_file is not None else None
        plain = socket.create_connection((self.host, self.port), timeout=CONNECT_TIMEOUT_S)
        kind = StampedSocket if self._pairing is None else StampedTlsSocket
        sock = kind(plain.family, plain.type, plain.proto, fileno=plain.detach())
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, int(self.tcp_nodelay))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _TCP_OPTIONS:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
        if self._pairing is not None and isinstance(sock, StampedTlsSocket):
            sock.settimeout(CONNECT_TIMEOUT_S)
            try:
                sock.handshake(self._pairing.context(), self.host)
            except BaseException:
                sock.close()
                raise
        return sock

    def _accepted(self, _client: object, _data: object, _flags: object, reason: ReasonCode, _p: object) -> None:
        if reason.is_failure:
            self._refused = broker_words.refused(str(reason), self._pairing)
            self.last_error = f"{self.host}:{self.port}: {self._refused}"
            return
        self.connected = True
        self._fruitless = False
        self._announce = True
        self._unconfirmed = len(self._subscriptions)
        # Here, because paho sends what waits at QoS 1 and 2 next: its answers must find us subscribed.
        for topic, qos in self._subscriptions:
            self.client.subscribe(topic, qos)

    def _confirmed(self, *_answer: object) -> None:
        self._unconfirmed -= 1
        self.subscribed = self._unconfirmed == 0

    def _lost(self, _client: object, _data: object, _flags: object, _reason: object, _p: object) -> None:
        if self.connected and not self._closing:
            self.disconnects += 1
        if not self.connected and not self._refused and self.sock is not None:
            self.last_error = f"{self.host}:{self.port}: {broker_words.ended(self.sock, self._pairing)}"
        self.connected = self.subscribed = False
        self.sock = None
        self._misc_due_ns = 0

    def _received(self, _client: object, _data: object, message: mqtt.MQTTMessage) -> None:
        self._on_message(message._topic, message.payload, message.qos)
