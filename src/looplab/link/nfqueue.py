"""The back end in user space: rules lead packets to a process that holds each one until it is due."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from looplab.errors import LabError, MachineError
from looplab.link.helper import Helper
from looplab.link.network import CAPABILITY_REMEDY, attempt, refusal, run
from looplab.link.settings import FIRST_QUEUE, LinkSettings

REPLY_TIMEOUT_S = 10.0
QUEUE_TABLE = Path("/proc/self/net/netfilter/nfnetlink_queue")
# Built-in chain -> ours. Both address matches are part of every kernel that has iptables at all.
CHAINS = {"OUTPUT": "LAB-LINK-OUT", "INPUT": "LAB-LINK-IN"}
_MATCHES = {"egress": ("LAB-LINK-OUT", "-d"), "ingress": ("LAB-LINK-IN", "-s")}


class Rules:
    """The iptables rules of a network namespace that hand packets to queues, in two chains of their own."""

    def __init__(self) -> None:
        self._iptables = _flavour()

    def install(self) -> None:
        """Make the chains and lead all packets through them, once."""
        self.replace([], {})
        for built_in, own in CHAINS.items():
            if not attempt([self._iptables, "-w", "-C", built_in, "-j", own])[0]:
                run([self._iptables, "-w", "-I", built_in, "-j", own])

    def replace(self, links: Sequence[LinkSettings], addresses: Mapping[str, Sequence[str]]) -> None:
        """Lead each link's packets to its queue, all at once; they pass if no process reads the queue."""
        lines = ["*filter", *(f":{own} - [0:0]" for own in CHAINS.values())]
        for queue, link in enumerate(links, FIRST_QUEUE):
            chain, match = _MATCHES[link.direction]
            lines += [
                f"-A {chain} {match} {address} -j NFQUEUE --queue-num {queue} --queue-bypass"
                for address in addresses[link.peer]
            ]
        run([f"{self._iptables}-restore", "-w", "--noflush"], "\n".join([*lines, "COMMIT", ""]))

    def remove(self) -> None:
        """Remove everything that was installed, if it is still there."""
        for built_in, own in CHAINS.items():
            for words in (("-D", built_in, "-j", own), ("-F", own), ("-X", own)):
                attempt([self._iptables, "-w", *words])


class Nfqueue:
    """A queue is open, and carries its link, before the rules lead to it."""

    name = "nfqueue"

    def __init__(self) -> None:
        # Imported here: only this back end needs netfilterqueue.
        from looplab.link.nfqueue_process import hold_packets

        self._rules = Rules()
        self._rules.install()
        self._helper = Helper(hold_packets)
        self._links: Sequence[LinkSettings] = []
        self._lost_before: Mapping[int, int] = {}

    def fault(self) -> str:
        helper = self._helper.process
        return "" if helper.is_alive() else f"the process that held the packets ended ({helper.exitcode})"

    def apply(self, links: Sequence[LinkSettings], addresses: Mapping[str, Sequence[str]]) -> None:
        """Replace all links; on an error those before stay. Raises LabError."""
        if refused := self._ask(links):
            raise _refused(refused)
        try:
            self._rules.replace(links, addresses)
        except LabError:
            self._ask(self._links)
            raise
        self._links, self._lost_before = links, overflows()

    def move(self, addresses: Mapping[str, Sequence[str]]) -> None:
        self._rules.replace(self._links, addresses)

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
        self._helper.end()

    def _ask(self, command: str | Sequence[LinkSettings]) -> Any:
        try:
            self._helper.pipe.send(command)
            if self._helper.pipe.poll(REPLY_TIMEOUT_S):
                return self._helper.pipe.recv()
        except (OSError, EOFError):
            pass
        why = self.fault() or "the process that holds the packets does not answer"
        raise MachineError(
            f"The link is not emulated any more: {why}.",
            "Packets pass without delay now. Restart the emulator's container and repeat the run.",
        )


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


def _flavour() -> str:
    """Return iptables over nf_tables if the kernel can, else the old one. Raises LabError (exit code 3)."""
    command, output = ["iptables-nft"], ""
    for name in ("iptables-nft", "iptables-legacy"):
        command = [name, "-w", "-S", "OUTPUT"]
        good, output = attempt(command)
        # Listing needs no NFQUEUE target; a chain of no consequence shows whether it is there.
        if good and _has_target(name):
            return name
    if "NFQUEUE" in output or not output:
        raise MachineError("This kernel has no NFQUEUE target.", "Load xt_NFQUEUE and nfnetlink_queue on the host.")
    raise refusal(command, output)


def _has_target(name: str) -> bool:
    probe = "LAB-LINK-PROBE"
    text = f"*filter\n:{probe} - [0:0]\n-A {probe} -j NFQUEUE --queue-num 0 --queue-bypass\nCOMMIT\n"
    good = attempt([f"{name}-restore", "-w", "--noflush"], text)[0]
    attempt([name, "-w", "-F", probe])
    attempt([name, "-w", "-X", probe])
    return good
