"""One client's way through the proxy: two sockets, and a pipe between them for each direction."""

from __future__ import annotations

import contextlib
import errno
import socket
import struct
import time

from support.mqtt_proxy.framing import Dialect, MalformedPacketError, Packet, PacketCutter, PacketReader
from support.mqtt_proxy.lane import Departure, Lane, Link, Step
from support.mqtt_proxy.ledger import Injection
from support.mqtt_proxy.rules import Direction

# SO_LINGER on with no time left: closing sends a reset instead of an end of stream.
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Pipe:
    """One direction of one connection: cuts what the source sends and writes what is due."""

    def __init__(self, connection: Connection, source: socket.socket, destination: socket.socket, link: Link) -> None:
        self.connection = connection
        self.source = source
        self.destination = destination
        self.link = link
        self.lane = Lane(link)
        self.reading = True
        self.ended = False
        self._cutter = PacketCutter()
        self._reader = PacketReader(connection.dialect, connection.number)
        self._backlog = memoryview(b"")
        self._backlog_packet: Packet | None = None

    @property
    def blocked(self) -> bool:
        """Whether the destination's socket has no room for the rest of a packet."""
        return self._backlog_packet is not None

    def receive(self, buffer: bytearray) -> None:
        """Takes what has arrived, or the end of it."""
        now_ns = time.monotonic_ns()
        try:
            count = self.source.recv_into(buffer)
        except BlockingIOError:
            return
        except OSError as error:
            self._finish(Step.RESET, now_ns, "reset_by_peer", name_of(error))
            return
        if count:
            with memoryview(buffer) as view:
                self._take(view[:count], now_ns)
        else:
            self._finish(Step.END, now_ns, "closed_by_peer")

    def forward_due(self) -> None:
        """Writes every packet that is due, as far as the destination takes it."""
        if self.blocked and not self.connection.over:
            self._write()
        while not self.blocked and not self.connection.over:
            departure = self.lane.pop(time.monotonic_ns())
            if departure is None:
                return
            self._depart(departure)

    def drain(self, buffer: bytearray) -> list[Packet]:
        """All that can no longer be delivered: what waits here and what the source sent and nobody read."""
        lost = [self._backlog_packet] if self._backlog_packet else []
        self._backlog, self._backlog_packet = memoryview(b""), None
        lost += self.lane.abandon()
        with contextlib.suppress(OSError):
            while self.reading and (count := self.source.recv_into(buffer)):
                now_ns = time.monotonic_ns()
                for raw in self._cutter.feed(bytes(buffer[:count])):
                    lost.append(self._read(raw, now_ns))
        self.reading = False
        return lost

    def _take(self, data: memoryview, now_ns: int) -> None:
        traffic = self.link.ledger.traffic[self.link.direction]
        for raw in self._cutter.feed(data):
            packet = self._read(raw, now_ns)
            traffic.packets += 1
            traffic.bytes += len(raw)
            traffic.publishes += packet.is_publish
            self.lane.admit(packet)
        if self._cutter.malformed:
            self._finish(Step.RESET, now_ns, "malformed_length", "a remaining length of more than four bytes")

    def _read(self, raw: bytes, now_ns: int) -> Packet:
        try:
            return self._reader.read(raw, now_ns)
        except MalformedPacketError as error:
            self._event(now_ns, "malformed_packet", str(error))
            return Packet(raw, now_ns, self.connection.number)

    def _finish(self, step: Step, now_ns: int, what: str, detail: str = "") -> None:
        self.reading = False
        self._event(now_ns, what, detail)
        rest = self._cutter.rest()
        if rest and not self._cutter.malformed:
            self._event(now_ns, "half_packet", f"the stream ended after {len(rest)} bytes of a packet")
            self.lane.admit(Packet(rest, now_ns, self.connection.number))
        self.lane.end(step, now_ns)

    def _depart(self, departure: Departure) -> None:
        if departure.packet:
            self._backlog_packet, self._backlog = departure.packet, memoryview(departure.packet.raw)
            self._write()
        elif departure.step is Step.END:
            with contextlib.suppress(OSError):
                self.destination.shutdown(socket.SHUT_WR)
            self.ended = True
        else:
            self.connection.cut(departure.cause)

    def _write(self) -> None:
        now_ns = time.monotonic_ns()
        try:
            sent = self.destination.send(self._backlog) if self._backlog else 0
        except BlockingIOError:
            return
        except OSError as error:
            self._give_up(now_ns, error)
            return
        self._backlog = self._backlog[sent:]
        if not self._backlog and self._backlog_packet:
            self._backlog_packet.forwarded_ns = now_ns
            self._backlog_packet.raw = b""
            self._backlog_packet = None

    def _give_up(self, now_ns: int, error: OSError) -> None:
        """The destination is gone; its own pipe will notice by reading, this one has nobody to write to."""
        self._event(now_ns, "undeliverable", name_of(error))
        self.connection.count_undelivered(self)
        self.ended = True

    def _event(self, now_ns: int, what: str, detail: str = "") -> None:
        text = f"{self.link.direction}: {detail}" if detail else str(self.link.direction)
        self.link.ledger.event(now_ns, self.connection.number, what, text)


class Connection:
    """A client and the broker's side that belongs to it."""

    def __init__(
        self,
        number: int,
        client: socket.socket,
        broker: socket.socket,
        links: dict[Direction, Link],
        buffer: bytearray,
    ) -> None:
        self.number = number
        self.client = client
        self.broker = broker
        self.dialect = Dialect()
        self.broker_connected = False
        self.over = False
        self.reset_due_ns: int | None = None
        self._cause: Injection | None = None
        self._buffer = buffer
        self._ledger = links[Direction.TO_BROKER].ledger
        self.pipes = [
            Pipe(self, client, broker, links[Direction.TO_BROKER]),
            Pipe(self, broker, client, links[Direction.TO_CLIENT]),
        ]

    def cut(self, cause: Injection | None) -> None:
        """Nothing more is read or forwarded; the reset follows after the rule's grace."""
        now_ns = time.monotonic_ns()
        self.over = True
        self._cause = cause
        self.reset_due_ns = now_ns + (round(cause.rule.grace_ms * 1_000_000) if cause else 0)

    def reset(self) -> None:
        """Both sides see their connection reset."""
        now_ns = time.monotonic_ns()
        if self._cause:
            self._cause.from_ns = now_ns
        for pipe in self.pipes:
            self.count_undelivered(pipe)
        for side in (self.client, self.broker):
            reset_on_close(side)
        self.close("reset" if self._cause is None else f"reset by rule {self._cause.rule_number}", now_ns)

    def close(self, how: str, now_ns: int) -> None:
        self.over = True
        self.client.close()
        self.broker.close()
        self._ledger.event(now_ns, self.number, "ended", how)
        # The garbage collector is off, so nothing may go on referring to itself.
        self.pipes.clear()

    def count_undelivered(self, pipe: Pipe) -> None:
        for packet in pipe.drain(self._buffer):
            self._ledger.undelivered(pipe.link.direction, packet)


def reset_on_close(side: socket.socket) -> None:
    """Has the peer see its connection reset once this socket is closed."""
    with contextlib.suppress(OSError):
        side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)


def name_of(error: OSError) -> str:
    """The symbolic name, such as ECONNRESET."""
    return errno.errorcode.get(error.errno or 0, str(error))
