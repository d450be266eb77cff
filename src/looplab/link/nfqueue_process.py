"""The helper process of the NFQUEUE back end: it holds each packet until it is due.

The service commands it through a pipe; if that pipe ends so does the process, and the rules' bypass lets the packets
pass. Nothing but packets and that pipe wakes it.
"""

from __future__ import annotations

import gc
import heapq
import select
from collections.abc import Sequence
from multiprocessing.connection import Connection
from time import perf_counter_ns
from typing import Any

from netfilterqueue import COPY_PACKET, NetfilterQueue

from looplab.link.distributions import Direction
from looplab.link.figures import Delays
from looplab.link.settings import FIRST_QUEUE, LinkSettings

# Packets one queue may hold: 10 s of 10 000 a second.
QUEUE_PACKETS = 100_000
# Enough for a verdict and duration of a sleep; the kernel's socket buffer holds what arrives meanwhile.
SOCKET_BYTES = 16 << 20
COPY_BYTES = 65_535


class Queue:
    """One kernel queue, with the decisions and counts of the link that it carries now."""

    def __init__(self, holder: Holder, number: int, link: LinkSettings) -> None:
        self._holder = holder
        self.carry(link)
        self._netlink = NetfilterQueue()
        self._netlink.bind(number, self._arrived, QUEUE_PACKETS, COPY_PACKET, COPY_BYTES, SOCKET_BYTES)
        self.descriptor = self._netlink.get_fd()

    def carry(self, link: LinkSettings) -> None:
        """Be the queue of `link` from now on; packets that are held leave when they were to."""
        self.direction, self.delays = Direction(link), Delays()
        self.packets = self.dropped = 0

    def read(self) -> None:
        """Take the packets that wait in the kernel's socket."""
        self._netlink.run(block=False)

    def _arrived(self, packet: Any) -> None:
        now_ns = perf_counter_ns()
        self.packets += 1
        if self.direction.loses():
            packet.drop()
            self.dropped += 1
        else:
            self._holder.hold(self.direction.due_ns(now_ns), now_ns, packet, self.delays)


class Holder:
    """All queues of the process and the packets they hold, by the time they are due."""

    def __init__(self, commands: Connection) -> None:
        self._commands = commands
        self._queues: list[Queue] = []
        self._held: list[tuple[int, int, int, Any, Delays]] = []
        self._serial = 0

    def hold(self, due_ns: int, arrival_ns: int, packet: Any, delays: Delays) -> None:
        """Keep a packet; the serial number keeps packets with the same due time in order."""
        self._serial += 1
        heapq.heappush(self._held, (due_ns, self._serial, arrival_ns, packet, delays))

    def run(self) -> None:
        """Serve until the pipe ends or None arrives; every held packet then leaves at once."""
        try:
            while self._step():
                pass
        finally:
            for _due, _serial, _arrival, packet, _delays in self._held:
                packet.accept()

    def _step(self) -> bool:
        queues = {queue.descriptor: queue for queue in self._queues}
        patience_s = max(0.0, (self._held[0][0] - perf_counter_ns()) / 1e9) if self._held else None
        for source in select.select([self._commands, *queues], [], [], patience_s)[0]:
            if source is not self._commands:
                queues[source].read()
            elif not self._obey():
                return False
        self._release()
        return True

    def _release(self) -> None:
        waiting = self._held
        while waiting and waiting[0][0] <= perf_counter_ns():
            _due, _serial, arrival_ns, packet, delays = heapq.heappop(waiting)
            packet.accept()
            delays.add(perf_counter_ns() - arrival_ns)

    def _obey(self) -> bool:
        """Carry out one command, a list of links to carry or the word for the counts; False at the end."""
        try:
            command = self._commands.recv()
        except EOFError:
            return False
        if command is None:
            return False
        self._commands.send(self._state() if isinstance(command, str) else self._carry(command))
        return True

    def _state(self) -> list[tuple[int, int, Delays, int]]:
        return [(q.packets, q.dropped, q.delays, q.direction.waited_ns) for q in self._queues]

    def _carry(self, links: Sequence[LinkSettings]) -> str:
        """Have the first queues carry these links; return why the kernel refuses one more, "" if it does not."""
        try:
            for number in range(len(self._queues), len(links)):
                self._queues.append(Queue(self, FIRST_QUEUE + number, links[number]))
        except OSError as error:
            return str(error)
        for queue, link in zip(self._queues, links, strict=False):
            queue.carry(link)
        return ""


def hold_packets(commands: Connection) -> None:
    """Be the helper process of the NFQUEUE back end."""
    gc.freeze()
    gc.disable()
    Holder(commands).run()
