"""The nftables rules that lead a link's packets to netem's queues, in tables that belong to this process alone.

The kernel removes such a table ("flags owner", Linux 5.12) when its process ends, however it ends: then all packets
bypass the queues, even if the whole container was killed and no process is left to clean up.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from looplab.errors import LabError
from looplab.link.commands import refusal

TABLE = "lab_link"
_FAMILIES = ("ip", "netdev")


@dataclass(frozen=True)
class Turn:
    """Leads packets of one peer's address on one interface to the class (`1:2`) of a prio queue.

    With `ifb` those that arrive, by that device; without it those that leave.
    """

    device: str
    address: str
    flow: str
    ifb: str = ""

    def rule(self) -> str:
        if self.ifb:
            return f'ip saddr {self.address} meta priority set {self.flow} fwd to "{self.ifb}"'
        return f'oifname "{self.device}" ip daddr {self.address} meta priority set {self.flow}'


class Steering:
    """At most one set of turns, which lasts as long as this object; no forked process may share it."""

    def __init__(self) -> None:
        # Here, because only this back end needs it.
        from nftables import Nftables

        self._nft = Nftables()
        self._there = False

    def replace(self, turns: Iterable[Turn]) -> None:
        """Make these the only turns, in one step; on LabError (exit code 3) those before stay."""
        self._run([*self._removal(), *_creation(list(turns))])
        self._there = True

    def clear(self) -> None:
        """Remove all turns. Raises LabError (exit code 3)."""
        self._run(self._removal())
        self._there = False

    def _removal(self) -> list[str]:
        return [f"delete table {family} {TABLE}" for family in _FAMILIES] if self._there else []

    def _run(self, lines: list[str]) -> None:
        code, _output, errors = self._nft.cmd("\n".join(lines)) if lines else (0, "", "")
        if code:
            first = str(errors).strip().splitlines()[:1]
            raise refusal(["nft", "…", TABLE], first[0] if first else "")


def _creation(turns: list[Turn]) -> list[str]:
    lines = [f"add table {family} {TABLE} {{ flags owner; }}" for family in _FAMILIES]
    lines.append(f"add chain ip {TABLE} out {{ type filter hook postrouting priority 0; }}")
    lines += [f"add rule ip {TABLE} out {turn.rule()}" for turn in turns if not turn.ifb]
    for at, device in enumerate(sorted({turn.device for turn in turns if turn.ifb})):
        lines.append(f'add chain netdev {TABLE} in{at} {{ type filter hook ingress device "{device}" priority 0; }}')
        lines += [
            f"add rule netdev {TABLE} in{at} {turn.rule()}" for turn in turns if turn.ifb and turn.device == device
        ]
    return lines


def missing_steering(device: str) -> str:
    """Return why this kernel cannot lead packets so, "" if it can: tried on an interface without traffic."""
    try:
        Steering().replace([Turn(device, "192.0.2.1", "1:1"), Turn(device, "192.0.2.1", "1:1", ifb=device)])
    except LabError as error:
        return error.message
    return ""
