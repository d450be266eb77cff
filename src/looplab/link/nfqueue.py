"""The back end in user space: rules lead packets to a process that holds each one until it is due.

The service commands it through a pipe; if that pipe ends so does the process, and the rules' bypass lets the packets
pass. Nothing but packets and that pipe wakes it.
"""

from __future__ import annotations

import gc
import heapq
import multiprocessing
import os
import select
import signal
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from netfilterqueue import COPY_PACKET, NetfilterQueue

from looplab.errors import LabError, MachineError
from looplab.link.distributions import Delays, Direction
from looplab.link.network import CAPABILITY_REMEDY, PROCESS_NAME, attempt, run
from looplab.link.settings import FIRST_QUEUE, LinkSettings
from looplab.system import own_process

REPLY_TIMEOUT_S = 10.0
QUEUE_TABLE = Path("/proc/self/net/netfilter/nfnetlink_queue")
# Built-in chain -> ours. Both address matches are part of every kernel that has iptables at all.
CHAINS = {"OUTPUT": "LAB-LINK-OUT", "INPUT": "LAB-LINK-IN"}
_MATCHES = {"egress": ("LAB-LINK-OUT", "-d"), "ingress": ("LAB-LINK-IN", "-s")}
# Packets one queue may hold: 10 s of 10 000 a second.
QUEUE_PACKETS = 100_000
# Enough for a verdict and duration of a sleep; the kernel's socket buffer holds what arrives meanwhile.
SOCKET_BYTES = 16 << 20
COPY_BYTES = 65_535


class Rules:
    """The iptables rules of a network namespace that hand packets to queues, in two chains of their own."""

    def install(self) -> None:
        """Make the chains and lead all packets through them, once."""
        # A rule for an address that no packet has fails here and now if the kernel has no NFQUEUE.
        self.replace([LinkSettings("nobody", "egress")], {"nobody": ["0.0.0.0"]})
        self.replace([], {})
        for built_in, own in CHAINS.items():
            if not attempt(["iptables-nft", "-w", "-C", built_in, "-j", own])[0]:
                run(["iptables-nft", "-w", "-I", built_in, "-j", own])

    def replace(self, links: Sequence[LinkSettings], addresses: Mapping[str, Sequence[str]]) -> None:
        """Lead each link's packets to its queue, all at once; they pass if no process reads the queue."""
        lines = ["*filter", *(f":{own} - [0:0]" for own in CHAINS.values())]
        for queue, link in enumerate(links, FIRST_QUEUE):
            chain, match = _MATCHES[link.direction]
            lines += [
                f"-A {chain} {match} {address} -j NFQUEUE --queue-num {queue} --queue-bypass"
                for address in addresses[link.peer]
            ]
        run(["iptables-nft-restore", "-w", "--noflush"], "\n".join([*lines, "COMMIT", ""]))

    def remove(self) -> None:
        """Remove everything that was installed, if it is still there."""
        for built_in, own in CHAINS.items():
            for words in (("-D", built_in, "-j", own), ("-F", own), ("-X", own)):
                attempt(["iptables-nft", "-w", *words])


class Nfqueue:
    """A queue is open, and carries its link, before the rules lead to it."""

    name = "nfqueue"

    def __init__(self) -> None:
        self._rules = Rules()
        self._rules.install()
        self._pipe, theirs = multiprocessing.Pipe()
        # Forked, not spawned: nothing is imported again, and no thread runs yet.
        fork = multiprocessing.get_context("fork")
        self._process = fork.Process(target=_hold_packets, args=(theirs, self._pipe), daemon=True)
        self._process.start()
        theirs.close()
        self._links: Sequence[LinkSettings] = []
        self._lost_before: Mapping[int, int] = {}

    def fault(self) -> str:
        alive = self._process.is_alive()
        return "" if alive else f"the process that held the packets ended ({self._process.exitcode})"

    def apply(self, links: Sequence[LinkSettings], addresses: Mapping[str, Sequence[str]]) -> None:
        """Replace all links. Raises LabError."""
        if refused := self._ask(links):
            raise _refused(refused)
        self._rules.replace(links, addresses)
        self._links, self._lost_before = links, overflows()

    def state(self) -> list[dict[str, Any]]:
        """Return counts and delays of each link, in the order they were given.

        `waits_ms` is the part of the mean delay that packets waited for others.
        """
        counted, lost, before = self._ask("state"), overflows(), self._lost_before
        return [
            {
                "packets": packets,
                "dropped": dropped,
                "delay_ms": delays.as_json(),
                "waits_ms": round(waited_ns / 1e6 / max(1, packets - dropped), 4),
                "overflowed": lost.get(queue, 0) - before.get(queue, 0),
            }
            for queue, (packets, dropped, delays, waited_ns) in enumerate(counted[: len(self._links)], FIRST_QUEUE)
        ]

    def close(self) -> None:
        """Remove the rules; then every held packet leaves at once."""
        self._rules.remove()
        if self._process.is_alive():
            self._pipe.send(None)
            self._process.join(REPLY_TIMEOUT_S)

    def _ask(self, command: str | Sequence[LinkSettings]) -> Any:
        try:
            self._pipe.send(command)
            if self._pipe.poll(REPLY_TIMEOUT_S):
                return self._pipe.recv()
        except (OSError, EOFError):
            pass
        why = self.fault() or "the process that holds the packets does not answer"
        raise MachineError(
            f"The link is not emulated any more: {why}.",
            "Packets pass without delay now. Restart the emulator's container and repeat the run.",
        )


def _hold_packets(commands: Connection, other_end: Connection) -> None:
    """Be the helper process, which ends with the service's end of the pipe, or when it gets None."""
    # If this process kept it open, the pipe would not end with the service.
    other_end.close()
    own_process.set_name(PROCESS_NAME)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    gc.freeze()
    gc.disable()
    Holder(commands).run()
    os._exit(0)


class Queue:
    """One kernel queue, with the decisions and counts of the link that it carries now."""

    def __init__(self, holder: Holder, number: int, link: LinkSettings) -> None:
        self._holder = holder
        self.carry(link)
        self.netlink = NetfilterQueue()
        self.netlink.bind(number, self._arrived, QUEUE_PACKETS, COPY_PACKET, COPY_BYTES, SOCKET_BYTES)

    def carry(self, link: LinkSettings) -> None:
        """Be the queue of `link` from now on; packets that are held leave when they were to."""
        self.direction, self.delays = Direction(link), Delays()
        self.packets = self.dropped = 0

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
        queues = {queue.netlink.get_fd(): queue for queue in self._queues}
        patience_s = max(0.0, (self._held[0][0] - perf_counter_ns()) / 1e9) if self._held else None
        for source in select.select([self._commands, *queues], [], [], patience_s)[0]:
            if source is not self._commands:
                queues[source].netlink.run(block=False)
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


def overflows() -> dict[int, int]:
    """Return how many packets each queue of this namespace lost because it, or its socket, was full."""
    try:
        lines = QUEUE_TABLE.read_text().splitlines()
    except OSError:
        return {}
    # queue, port id, waiting, copy mode, copy range, dropped by queue, dropped by socket, ...
    fields = [[int(word) for word in line.split()] for line in lines]
    return {row[0]: row[5] + row[6] for row in fields}


def _refused(why: str) -> LabError:
    remedy = CAPABILITY_REMEDY if "not permitted" in why else "Stop the other emulator in this network namespace."
    return MachineError(f"The kernel refuses a queue: {why}.", remedy)
