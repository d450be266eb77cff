"""The packets' way through user space: a process that holds each one until it is due.

It is forked by the service, which tells it what to do through a pipe; where that pipe ends it ends, too, and the
rules' bypass lets the packets pass. Nothing but packets and that pipe wakes it.
"""

from __future__ import annotations

import contextlib
import gc
import heapq
import os
import select
import signal
import socket
from multiprocessing.connection import Connection
from time import perf_counter_ns
from typing import Any

from netfilterqueue import COPY_PACKET, NetfilterQueue

from looplab.link.figures import Delays
from looplab.link.lane import Lane
from looplab.link.settings import LinkSettings
from looplab.system import processes

PROCESS_NAME = "lab-link"
# Packets one queue may hold: 10 s of 10 000 a second.
QUEUE_PACKETS = 100_000
# Enough for a verdict and duration of a sleep; the kernel's socket buffer holds what comes meanwhile.
SOCKET_BYTES = 16 << 20
COPY_BYTES = 65_535
# Marks a copy, which must not be copied again.
COPY_MARK = 0x1AB
# A queue that is no longer fed is closed once it was empty for so long.
LINGER_NS = 200_000_000
IDLE_S = 3600.0
_SO_MARK = 36


class Queue:
    """One direction of one link: its kernel queue, its decisions, its counts."""

    def __init__(self, path: Path, number: int, settings: LinkSettings) -> None:
        self.lane = Lane(settings)
        self.delays = Delays()
        self.packets = self.dropped = self.duplicated = 0
        self.held = 0
        self.retired_ns = 0
        self._path = path
        self._netlink = NetfilterQueue()
        self._netlink.bind(number, self._arrived, QUEUE_PACKETS, COPY_PACKET, COPY_BYTES, SOCKET_BYTES)
        self.descriptor = self._netlink.get_fd()

    def read(self) -> None:
        """Take what waits in the kernel's socket."""
        self._netlink.run(block=False)

    def close(self) -> None:
        self._netlink.unbind()

    def as_state(self) -> tuple[int, int, int, Delays]:
        return self.packets, self.dropped, self.duplicated, self.delays

    def _arrived(self, packet: Any) -> None:
        now_ns = perf_counter_ns()
        self.packets += 1
        lane = self.lane
        payload = packet.get_payload()
        if lane.duplicates() and packet.get_mark() != COPY_MARK:
            self._path.copy(payload)
            self.duplicated += 1
        if lane.loses():
            packet.drop()
            self.dropped += 1
            return
        self.held += 1
        self._path.hold(lane.due_ns(now_ns, len(payload)), now_ns, packet, self)


class Path:
    """All queues of the process and the packets they hold, by the time they are due."""

    def __init__(self, commands: Connection) -> None:
        self._commands = commands
        self._banks: dict[int, list[Queue]] = {}
        self._held: list[tuple[int, int, int, Any, Queue]] = []
        self._serial = 0
        self._raw: socket.socket | None = None

    def hold(self, due_ns: int, arrival_ns: int, packet: Any, queue: Queue) -> None:
        """Keep a packet; the serial number keeps those that are due together in the order they came."""
        self._serial += 1
        heapq.heappush(self._held, (due_ns, self._serial, arrival_ns, packet, queue))

    def copy(self, payload: bytes) -> None:
        """Send a copy along the same way: it comes by the same queue, marked, and is delayed by itself."""
        assert self._raw is not None
        destination = socket.inet_ntoa(payload[16:20])
        with contextlib.suppress(OSError):
            self._raw.sendto(payload, (destination, 0))

    def run(self) -> None:
        """Until the pipe ends or says so; whatever is held then leaves at once."""
        try:
            while self._step():
                pass
        finally:
            for _due, _serial, _arrival, packet, _queue in self._held:
                packet.accept()
            os._exit(0)

    def _step(self) -> bool:
        queues = [queue for bank in self._banks.values() for queue in bank]
        by_descriptor = {queue.descriptor: queue for queue in queues}
        readable, _, _ = select.select([self._commands, *by_descriptor], [], [], self._patience_s(queues))
        for source in readable:
            if source is self._commands:
                if not self._obey():
                    return False
            else:
                by_descriptor[source].read()
        self._release()
        self._close_retired()
        return True

    def _patience_s(self, queues: list[Queue]) -> float:
        if any(queue.retired_ns for queue in queues):
            return 0.01 if not self._held else min(0.01, max(0.0, (self._held[0][0] - perf_counter_ns()) / 1e9))
        if not self._held:
            return IDLE_S
        return max(0.0, (self._held[0][0] - perf_counter_ns()) / 1e9)

    def _release(self) -> None:
        held = self._held
        while held and held[0][0] <= perf_counter_ns():
            _due, _serial, arrival_ns, packet, queue = heapq.heappop(held)
            packet.accept()
            queue.held -= 1
            queue.delays.add(perf_counter_ns() - arrival_ns)

    def _close_retired(self) -> None:
        now_ns = perf_counter_ns()
        for bank, queues in list(self._banks.items()):
            retired = [queue for queue in queues if queue.retired_ns]
            if retired and all(not q.held and now_ns - q.retired_ns > LINGER_NS for q in retired):
                for queue in retired:
                    queue.close()
                del self._banks[bank]

    def _obey(self) -> bool:
        try:
            word, bank, links = self._commands.recv()
        except EOFError:
            return False
        if word == "end":
            return False
        reply: object = None
        if word == "open":
            reply = self._open(bank, links)
        elif word == "retire":
            self._retire(bank)
        elif word == "state":
            reply = [queue.as_state() for queue in self._banks.get(bank, [])]
        self._commands.send(reply)
        return True

    def _open(self, first_number: int, links: list[LinkSettings]) -> str:
        """Why it could not be done, "" where it could."""
        queues: list[Queue] = []
        try:
            if any(link.duplicate_percent for link in links):
                self._open_raw()
            for at, link in enumerate(links):
                queues.append(Queue(self, first_number + at, link))
        except OSError as error:
            for queue in queues:
                queue.close()
            return str(error)
        self._banks[first_number] = queues
        return ""

    def _open_raw(self) -> None:
        if self._raw is None:
            self._raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
            self._raw.setsockopt(socket.SOL_SOCKET, _SO_MARK, COPY_MARK)

    def _retire(self, bank: int) -> None:
        for queue in self._banks.get(bank, []):
            queue.retired_ns = perf_counter_ns()


def carry(commands: Connection, other_end: Connection) -> None:
    """The whole life of the process."""
    # Else the pipe would not end with the service.
    other_end.close()
    processes.set_name(PROCESS_NAME)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    gc.freeze()
    gc.disable()
    Path(commands).run()
