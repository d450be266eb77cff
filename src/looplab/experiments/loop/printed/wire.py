"""Clients that run in the controller's place, and their packets as the kernel stamps them."""

import socket
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from time import perf_counter_ns
from typing import NamedTuple

from looplab.capture.streams import Stream
from looplab.errors import MachineError
from looplab.experiments.loop.parameters import LoopParameters
from looplab.mqtt import kernel_stamps
from looplab.mqtt.kernel_stamps import ABSENT, ARRIVAL_BYTES, RealtimeClock
from looplab.mqtt.packets import parse_publish
from looplab.treatments.broker import access
from looplab.treatments.judgement import Treatment

STEP_NS = 20_000_000

# linux/if_ether.h, linux/if_packet.h, linux/socket.h
ETH_P_ALL, ETH_P_IP, PACKET_OUTGOING, SOL_PACKET, PACKET_STATISTICS = 3, 0x0800, 4, 263, 6
BUFFER_BYTES, MOST_BYTES = 1 << 22, 1 << 16
# A flood of packets must not keep the lab from ending its client.
MOST_PACKETS = 4096
_PORTS = struct.Struct("!HHI")
_SYN, _PUBLISH = 2, 3


class Publish(NamedTuple):
    """One PUBLISH; `leaves`: this container sends it. `stamp_ns` is monotonic."""

    leaves: bool
    topic: bytes
    payload: bytes
    qos: int
    stamp_ns: int


class Wire:
    """Each PUBLISH that leaves or enters this container. Raises LabError (exit code 3) without CAP_NET_RAW."""

    def __init__(self, broker_port: int) -> None:
        self._port = broker_port
        self._streams: dict[tuple[bytes, int], Stream] = {}
        self._clock = RealtimeClock()
        self.dropped = self.unstamped = 0
        try:
            # Only a socket for all protocols sees the packets that leave.
            self._sock = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL))
        except PermissionError:
            raise MachineError(
                "CLIENTS=printed measures by packets, and this controller may not capture any.",
                "Set FIDELITY or CLIENTS in the shell or .env: Compose chooses its files by them, not by params.env. A "
                "scenario of your own needs a line in compose/printed.yaml.",
            ) from None
        self._sock.setblocking(False)
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        kernel_stamps.request(self._sock)

    def read(self) -> Iterator[Publish]:
        """Yield what was captured since the last time; of very much the oldest part."""
        for _ in range(MOST_PACKETS):
            try:
                packet, ancillary, _flags, address = self._sock.recvmsg(MOST_BYTES, ARRIVAL_BYTES)
            except BlockingIOError:
                break
            if address[1] == ETH_P_IP and packet[9] == socket.IPPROTO_TCP:
                yield from self._of_packet(packet, address[2] == PACKET_OUTGOING, self._clock.stamp(ancillary))
        statistics = self._sock.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8)
        self.dropped += struct.unpack("II", statistics)[1]

    def close(self) -> None:
        self._sock.close()

    def _of_packet(self, packet: bytes, leaves: bool, stamp_ns: int) -> Iterator[Publish]:
        begin = 4 * (packet[0] & 15)
        source, destination, sequence = _PORTS.unpack_from(packet, begin)
        # Leave out the padding of a short frame.
        data = packet[begin + 4 * (packet[begin + 12] >> 4) : int.from_bytes(packet[2:4], "big")]
        key = (packet[12:20], source << 16 | destination)
        if packet[begin + 13] & _SYN:
            self._streams.pop(key, None)
        # On loopback each packet is seen twice.
        if not data or self._port != (destination if leaves else source):
            return
        # No segment waits behind a gap: the unfinished packet before it is dropped.
        stream = self._streams.setdefault(key, Stream(most_waiting=0))
        try:
            whole = stream.put(sequence, data)
        except ValueError:
            # Bytes that are not MQTT: the broker ends this connection.
            return
        for _end, one in whole:
            if one[0] >> 4 == _PUBLISH:
                if stamp_ns == ABSENT:
                    # The clock was set meanwhile: take the time of reading.
                    self.unstamped += 1
                    stamp_ns = perf_counter_ns()
                topic, _number, payload = parse_publish(one)
                yield Publish(leaves, topic, payload, one[0] >> 1 & 3, stamp_ns)


class WatchedClients(ABC):
    """Clients that are measured by their packets; a looplab.run.open_loop.Sender that sends nothing itself.

    `wait_for_news(until_ns)` serves the controller's own connection.
    """

    sock = None

    def __init__(self, parameters: LoopParameters, wait_for_news: Callable[[int], None]) -> None:
        self._parameters, self._wait_for_news = parameters, wait_for_news
        self._wire = Wire(parameters.broker_port)
        self.on_publish: Callable[[Publish], None] = lambda _publish: None

    def publish(self, topic: str, payload: bytes, qos: int) -> bool:
        """Return False: the clients publish by themselves."""
        return False

    def wait(self, until_ns: int) -> None:
        """Take packets and output until `until_ns`; seldom, so that the clients are not disturbed."""
        while True:
            self._wait_for_news(min(until_ns, perf_counter_ns() + STEP_NS))
            for one in self._wire.read():
                self.on_publish(one)
            self._read()
            if perf_counter_ns() >= until_ns:
                return

    def close(self) -> None:
        self.end()
        self._wire.close()

    @abstractmethod
    def end(self) -> None:
        """End the clients that run."""

    @abstractmethod
    def _read(self) -> None:
        """Take the clients' output."""

    def _broker(self) -> dict[str, str]:
        """Return the variables that give a client its broker."""
        pairing = access()
        return {
            "BROKER_HOST": self._parameters.broker_host,
            "BROKER_PORT": str(self._parameters.broker_port),
            "BROKER_USER": pairing.user if pairing else "",
            "BROKER_PASSWORD": pairing.password if pairing else "",
        }

    def _judge_packets(self) -> Treatment:
        lacking = {"dropped": self._wire.dropped, "unstamped": self._wire.unstamped}
        words = ", ".join(f"{count} {name}" for name, count in lacking.items())
        return Treatment("packets of the clients", "every one captured and stamped", words, not any(lacking.values()))
