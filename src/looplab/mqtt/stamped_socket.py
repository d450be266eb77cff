"""Sockets that keep when bytes last entered and left, and cut what enters into MQTT packets; with TLS: tls_socket.py.

In user space, around send() and recv(); beside that, where it can, the kernel's own stamps (see kernel_stamps.py).
"""

import socket
from collections import deque
from collections.abc import Callable, Sequence
from time import perf_counter_ns

from looplab.mqtt import kernel_stamps
from looplab.mqtt.kernel_stamps import ABSENT, Ancillary, RealtimeClock, Segments
from looplab.mqtt.packets import PacketBuffer

RECEIVE_BYTES = 65536
# Messages whose departure is still to be stamped: more than a connection ever has under way.
MOST_DEPARTING = 1000

Departures = deque[tuple[int, Callable[[int], object]]]


class StampedSocket(socket.socket):
    """A non-blocking socket that takes each packet to send whole; times are monotonic ns."""

    received_ns = 0
    sent_ns = 0
    # Bytes that `send` took and the system has not taken yet.
    unsent = b""
    # The version of TLS that was negotiated, "" without.
    tls = ""
    # The first two bytes that arrived: they show which protocol the other end speaks.
    first = b""
    # The packet that is being handled, and what `recv` still hands out of one.
    current = b""
    packet = b""
    ended = False
    # What ended it, None if the other end closed it.
    error: OSError | None = None
    # Why the kernel stamps nothing here; "" if it does.
    unstamped = "not requested"
    # Whether there may be stamps of departures to take.
    departing = False
    _buffer: PacketBuffer | None = None
    # What the last read returned beside bytes, its stamp once it is asked for, whether it was one segment, and the
    # packets that the stamp is for.
    _ancillary: Ancillary = ()
    _arrived_ns: int | None = None
    _one_segment = False
    _stamped: Sequence[bytes] = ()
    _sent_bytes = 0
    _clock: RealtimeClock
    _segments: Segments
    # (bytes sent once it has left, what to call then) of each message.
    _departures: Departures | None = None

    def request_stamps(self) -> None:
        """Have the kernel stamp what enters and leaves; before anything is sent. `unstamped` is set if it refuses."""
        self.unstamped = kernel_stamps.request(self)
        if not self.unstamped:
            self._clock, self._segments = RealtimeClock(), Segments()
            self._departures = deque(maxlen=MOST_DEPARTING)

    @property
    def moved_bytes(self) -> int | None:
        """The bytes sent and received so far, None where the kernel does not count what it received."""
        received = kernel_stamps.received_bytes(self)
        return None if received is None else self._sent_bytes + received

    @property
    def arrived_ns(self) -> int:
        """When the kernel received the `current` packet from the network; ABSENT where it gave no stamp of its own.

        The kernel stamps the last byte of a read: of packets that were read together, only the last one has a stamp,
        unless one segment brought them all.
        """
        if self.unstamped or not any(packet is self.current for packet in self._stamped):
            return ABSENT
        if self._arrived_ns is None:
            self._arrived_ns = self._clock.stamp(self._ancillary)
        return self._arrived_ns if self._arrived_ns <= self.received_ns else ABSENT

    def on_departure(self, call: Callable[[int], object]) -> None:
        """Call `call` with the time at which the kernel passes the last byte of what `send` took to the network.

        That is from `take_departures`, at once or later; never without the kernel's stamps.
        """
        if self._departures is not None:
            self._departures.append((self._sent_bytes + len(self.unsent), call))

    def take_departures(self) -> None:
        """Take the stamps of what has left. Before select(), which returns at once while there are any."""
        self.departing = False
        if self._departures is None:
            return
        try:
            while self._take_departure() != self._sent_bytes & 0xFFFFFFFF:
                pass
        except OSError:
            # There is no more, or the connection failed: the next read reports it.
            return

    def _take_departure(self) -> int:
        """Return how many bytes (32 bits) have left by the next stamp. Raises BlockingIOError without one."""
        ancillary = self.recvmsg(0, kernel_stamps.DEPARTURE_BYTES, kernel_stamps.MSG_ERRQUEUE)[1]
        number = kernel_stamps.last_byte(ancillary)
        left = number + 1 & 0xFFFFFFFF
        if number != ABSENT and self._departures:
            ns = self._clock.stamp(ancillary)
            # A segment may hold several messages; its stamp names the last byte.
            while self._departures and (left - self._departures[0][0]) & 0xFFFFFFFF < 1 << 31:
                call = self._departures.popleft()[1]
                if ns != ABSENT:
                    call(ns)
        return left

    def receive(self) -> list[bytes]:
        """Return the whole packets that have arrived; `ended` is set once no more can arrive."""
        try:
            chunk = self._arrived()
        except BlockingIOError:
            # It was a departure that made the socket ready: one that Nagle's algorithm had delayed.
            self.take_departures()
            return []
        except OSError as error:
            chunk, self.error = b"", error
        if self._buffer is None:
            self.first, self._buffer = chunk[:2], PacketBuffer()
        self.ended = not chunk
        packets = self._buffer.packets(chunk)
        if self._one_segment:
            self._stamped = packets
        else:
            self._stamped = () if self._buffer.rest else packets[-1:]
        return packets

    def recv(self, size: int, flags: int = 0) -> bytes:
        """Return bytes of `packet`, for paho, which reads a packet in pieces; b"" at the end of the connection."""
        if not self.packet and not self.ended:
            raise BlockingIOError
        part, self.packet = self.packet[:size], self.packet[size:]
        return part

    def send(self, data: bytes, flags: int = 0) -> int:  # type: ignore[override]
        """Take all of `data`; raise BlockingIOError, and take nothing, while earlier bytes are `unsent`."""
        if self.unsent:
            self.flush()
            if self.unsent:
                raise BlockingIOError
        self.unsent = data
        self.flush()
        return len(data)

    def flush(self) -> None:
        """Send what is `unsent`, as far as the system takes it."""
        now = perf_counter_ns()
        try:
            taken = socket.socket.send(self, self.unsent)
        except BlockingIOError:
            return
        self.sent_ns = now
        self.unsent = self.unsent[taken:]
        self._sent_bytes += taken
        self.departing = True

    def _arrived(self) -> bytes:
        chunk, self._ancillary, _flags, _address = self.recvmsg(RECEIVE_BYTES, kernel_stamps.ARRIVAL_BYTES)
        self.received_ns = perf_counter_ns()
        self._arrived_ns = None
        self._one_segment = not self.unstamped and self._segments.one(self, len(chunk))
        return chunk
