"""The iptables rules that hand a link's packets to its queue, in two chains of their own."""

from collections.abc import Mapping, Sequence

from looplab.errors import MachineError
from looplab.link.commands import attempt, refusal, run
from looplab.link.settings import LinkSettings

# Built-in chain -> ours. Both address matches are part of every kernel that has iptables at all.
CHAINS = {"OUTPUT": "LAB-LINK-OUT", "INPUT": "LAB-LINK-IN"}
_MATCHES = {"egress": ("LAB-LINK-OUT", "-d"), "ingress": ("LAB-LINK-IN", "-s")}


class Rules:
    """One network namespace's rules; `iptables` is the flavour this kernel accepts."""

    def __init__(self) -> None:
        self._iptables = _flavour()

    def install(self) -> None:
        """Make the chains and lead all packets through them, once."""
        self.replace([], {}, 0)
        for built_in, own in CHAINS.items():
            if not attempt([self._iptables, "-w", "-C", built_in, "-j", own])[0]:
                run([self._iptables, "-w", "-I", built_in, "-j", own])

    def replace(self, links: Sequence[LinkSettings], addresses: Mapping[str, Sequence[str]], first_queue: int) -> None:
        """Lead link n's packets to queue `first_queue` + n, all at once; they pass if no process reads the queue."""
        lines = ["*filter", *(f":{own} - [0:0]" for own in CHAINS.values())]
        for queue, link in enumerate(links, first_queue):
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
