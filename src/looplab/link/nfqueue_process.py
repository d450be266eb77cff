"""The helper process of the NFQUEUE back end: it holds each packet until it is due.

The service commands it through a pipe; if that pipe ends so does the process, and the rules' bypass lets the packets
pass. Nothing but packets and that pipe wakes it.
"""

from __future__ import annotations

import gc
import heapq
import select
from multiprocessing.connection import Connection
from time import perf_counter_ns
from typing import Any

from netfilterqueue import COPY_PACKET, NetfilterQueue

from looplab.link.distributions import Direction
from looplab.link.figures import Delays
from looplab.link.settings import LinkSettings

# Packets one queue may hold: 10 s of 10 000 a second.
QUEUE_PACKETS = 100_000
# Enough for a verdict and duration of a sleep; the kernel's socket buffer holds what arrives meanwhile.
SOCKET_BYTES = 16 << 20
COPY_BYTES = 65_535
# A retired queue is closed once it has been empty for this long; checked this often.
LINGER_NS = 200_000_000
RETIRED_CHECK_S = 0.01
IDLE_S = 3600.0


class Queue:
    """One direction of one link: its kernel queue, its decisions, its counts."""

    def __init__(self, holder: Holder, number: int, settings: LinkSettings) -> None:
        self.direction = Direction(settings)
        self.delays = Delays()
        self.packets = self.dropped = 0
        self.held = 0
        self.retired_ns = 0
        self._holder = holder
        self._netlink = NetfilterQueue()
        self._netlink.bind(number, self._arrived, QUEUE_PACKETS, COPY_PACKET, COPY_BYTES, SOCKET_BYTES)
        self.descriptor = self._netlink.get_fd()

    def read(self) -> None:
        """Take the packets that wait in the kernel's socket."""
        self._netlink.run(block=False)

    def close(self) -> None:
        self._netlink.unbind()

    def _arrived(self, packet: Any) -> None:
        now_ns = perf_counter_ns()
        self.packets += 1
        direction = self.direction
        if direction.loses():
            packet.drop()
            self.dropped += 1
            return
        self.held += 1
        self._holder.hold(direction.due_ns(now_ns, packet.get_payload_len()), now_ns, packet, self)


class Holder:
    """All queues of the process and the packets they hold, by the time they are due.

    The queues of one PUT /links are a bank, known by its first queue's number.
    """

    def __init__(self, commands: Connection) -> None:
        self._commands = commands
        self._banks: dict[int, list[Queue]] = {}
        self._held: list[tuple[int, int, int, Any, Queue]] = []
        self._serial = 0

    def hold(self, due_ns: int, arrival_ns: int, packet: Any, queue: Queue) -> None:
        """Keep a packet; the serial number keeps packets with the same due time in order."""
        self._serial += 1
        heapq.heappush(self._held, (due_ns, self._serial, arrival_ns, packet, queue))

    def run(self) -> None:
        """Serve until the pipe ends or None arrives; every held packet then leaves at once."""
        try:
            while self._step():
                pass
        finally:
            for _due, _serial, _arrival, packet, _queue in self._held:
                packet.accept()

    def _step(self) -> bool:
        queues = {queue.descriptor: queue for bank in self._banks.values() for queue in bank}
        readable, _, _ = select.select([self._commands, *queues], [], [], self._patience_s())
        for source in readable:
            if source is not self._commands:
                queues[source].read()
            elif not self._obey():
                return False
        self._release()
        self._close_retired()
        return True

    def _patience_s(self) -> float:
        retired = any(queue.retired_ns for bank in self._banks.values() for queue in bank)
        longest_s = RETIRED_CHECK_S if retired else IDLE_S
        if not self._held:
            return longest_s
        return min(longest_s, max(0.0, (self._held[0][0] - perf_counter_ns()) / 1e9))

    def _release(self) -> None:
        waiting = self._held
        while waiting and waiting[0][0] <= perf_counter_ns():
            _due, _serial, arrival_ns, packet, queue = heapq.heappop(waiting)
            packet.accept()
            queue.held -= 1
            queue.delays.add(perf_counter_ns() - arrival_ns)

    def _close_retired(self) -> None:
        now_ns = perf_counter_ns()
        for first_number, bank in list(self._banks.items()):
            if all(q.retired_ns and not q.held and now_ns - q.retired_ns > LINGER_NS for q in bank):
                for queue in bank:
                    queue.close()
                del self._banks[first_number]

    def _obey(self) -> bool:
        """Carry out one command: (word, the bank's first queue number, links); False at the end."""
        try:
            command = self._commands.recv()
        except EOFError:
            return False
        if command is None:
            return False
        word, first_number, links = command
        reply: object = None
        if word == "open":
            reply = self._open(first_number, links)
        elif word == "retire":
            for queue in self._banks.get(first_number, []):
                queue.retired_ns = perf_counter_ns()
        elif word == "state":
            bank = self._banks.get(first_number, [])
            reply = [(q.packets, q.dropped, q.delays, q.direction.waited_ns) for q in bank]
        self._commands.send(reply)
        return True

    def _open(self, first_number: int, links: list[LinkSettings]) -> str:
        """Return why the bank could not be opened, "" if it was."""
        bank: list[Queue] = []
        try:
            for at, link in enumerate(links):
                bank.append(Queue(self, first_number + at, link))
        except OSError as error:
            for queue in bank:
                queue.close()
            return str(error)
        self._banks[first_number] = bank
        return ""


def hold_packets(commands: Connection) -> None:
    """Be the helper process of the NFQUEUE back end."""
    gc.freeze()
    gc.disable()
    Holder(commands).run()
