"""One client's connection through the proxy: two sockets, a pipe between them for each direction."""

import contextlib
import socket
import struct
import time

from support.mqtt_packets import MalformedPacketError, cut
from support.mqtt_proxy.packets import Packet, read
from support.mqtt_proxy.queue import Departure, Direction, PacketQueue, Step
from support.mqtt_proxy.rules import TO_BROKER, TO_CLIENT

RECEIVE_BYTES = 256 * 1024


class Pipe:
    """One direction of one connection: cut what the source sends, write what is due."""

    def __init__(self, number: int, source: socket.socket, sink: socket.socket, direction: Direction) -> None:
        self.source, self.sink = source, sink
        self.reading = True
        self.ended = False
        self._number = number
        self._direction = direction
        self._queue = PacketQueue(direction)
        self._pending = bytearray()
        self._unwritten = memoryview(b"")
        self._writing: list[Packet] = []

    @property
    def blocked(self) -> bool:
        """Whether the sink's socket has no room for the rest of a write."""
        return bool(self._writing)

    def next_due_ns(self) -> int | None:
        return None if self.blocked or self.ended else self._queue.next_due_ns()

    def receive(self) -> None:
        """Take what has arrived, or the end of it."""
        now_ns = time.monotonic_ns()
        try:
            data = self.source.recv(RECEIVE_BYTES)
            self._pending += data
            for raw in cut(self._pending):
                self._queue.admit(read(raw, now_ns, self._number))
        except BlockingIOError:
            return
        except (OSError, MalformedPacketError) as error:
            self._event(now_ns, f"reset: {error}")
            self._stop_reading(Step.RESET, now_ns)
            return
        if not data:
            if self._pending:
                self._queue.admit(Packet(bytes(self._pending), now_ns, self._number))
            self._stop_reading(Step.END, now_ns)

    def forward_due(self) -> Departure | None:
        """Write what is due, as far as the sink takes it; return a reset that is due."""
        while not self.ended and self._write():
            departure = self._queue.pop(time.monotonic_ns())
            if departure is None or departure.step is Step.RESET:
                return departure
            if departure.step is Step.END:
                with contextlib.suppress(OSError):
                    self.sink.shutdown(socket.SHUT_WR)
                self.ended = True
            self._writing = departure.packets
            self._unwritten = memoryview(b"".join(packet.raw for packet in departure.packets))
        return None

    def abandon(self) -> None:
        """Record all that can no longer be delivered: what waits here, and what nobody has read."""
        if self.reading:
            with contextlib.suppress(OSError):
                self.receive()
        self.reading, self.ended = False, True
        self._direction.record.leave_undelivered(self._direction.name, self._writing + self._queue.abandon())
        self._writing = []

    def _write(self) -> bool:
        """Return whether nothing is left to write."""
        if not self._writing:
            return True
        now_ns = time.monotonic_ns()
        try:
            self._unwritten = self._unwritten[self.sink.send(self._unwritten) :]
        except BlockingIOError:
            return False
        except OSError as error:
            # The other pipe reads this end by itself, and may still have packets for the other side.
            self._event(now_ns, f"undeliverable: {error}")
            self.abandon()
            return False
        if self._unwritten:
            return False
        for packet in self._writing:
            packet.forwarded_ns, packet.raw = now_ns, b""
        self._writing = []
        return True

    def _stop_reading(self, step: Step, now_ns: int) -> None:
        self.reading = False
        self._queue.end(step, now_ns)

    def _event(self, now_ns: int, what: str) -> None:
        self._direction.record.events.append((now_ns, self._number, f"{self._direction.name}: {what}"))


class Connection:
    """A client and the broker's side that belongs to it."""

    def __init__(
        self, number: int, client: socket.socket, broker: socket.socket, directions: dict[str, Direction]
    ) -> None:
        self.sides = (client, broker)
        for side in self.sides:
            side.setblocking(False)
            side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.pipes = [
            Pipe(number, client, broker, directions[TO_BROKER]),
            Pipe(number, broker, client, directions[TO_CLIENT]),
        ]

    def forward_due(self) -> Departure | None:
        """Write what is due in both directions; return a reset that is due."""
        return next((reset for pipe in self.pipes if (reset := pipe.forward_due())), None)

    def next_due_ns(self) -> int | None:
        return min((due for pipe in self.pipes if (due := pipe.next_due_ns()) is not None), default=None)

    def close(self, *, reset: bool) -> None:
        """End both sides, with a reset instead of an end of stream where asked for."""
        for pipe in self.pipes:
            pipe.abandon()
        for side in self.sides:
            close(side, reset=reset)


def close(side: socket.socket, *, reset: bool) -> None:
    if reset:
        with contextlib.suppress(OSError):
            # SO_LINGER with no time left makes close() send a reset.
            side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    side.close()
