"""The ledger: of what each message's O is made, by the kernel's time stamps; durations alone, in ns.

    controller   sent |-- send path --> kernel ... network and broker ...  kernel --- wake-up --->| received
    bridge                                 kernel --- wake-up --->| R1 ... R2 |-- send path --> kernel

One machine's clock times each part except the last. Network and broker is the remainder, so the sum is O exactly.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from looplab.experiments.loop import WHOLE, overhead_ns, transport_ns
from looplab.run.accounting import Columns, summarise
from looplab.run.samples import ABSENT
from looplab.spec.columns import between

COLUMNS = ("bridge_wake_up_ns", "bridge_send_path_ns")
NAMES = {
    "send_path": "controller's send path",
    "wake_up": "controller's wake-up",
    "bridge_wake_up": "bridge's wake-up",
    "bridge_send_path": "bridge's send path",
    "network": "network and broker",
}
# Why a part of a message is unknown although the kernel gives time stamps.
_GAPS = {
    "wake_up": "came in together with later ones, and the kernel stamps only the last",
    "send_path": "left without a stamp of the kernel",
    "bridge_wake_up": "came to the bridge together with later ones",
    "bridge_send_path": "had no later answer with which the bridge could report its part",
}


class OverheadParts(NamedTuple):
    """The parts of one message's O, ABSENT where unknown; named as NAMES are."""

    send_path: int
    wake_up: int
    bridge_wake_up: int
    bridge_send_path: int
    network: int


def of_row(columns: Columns, row: int) -> OverheadParts:
    """Return the parts of an answered message's O, whose R is known; the network is what the others leave of it.

    It is unknown if one of them is, or if they are longer than O.
    """
    send_path, wake_up = (
        max(ABSENT, between(begin, end, columns, row))
        for begin, end in (("sent_ns", "left_ns"), ("arrived_ns", "received_ns"))
    )
    known = (send_path, wake_up, columns["bridge_wake_up_ns"][row], columns["bridge_send_path_ns"][row])
    rest = overhead_ns(columns, row) - sum(known)
    return OverheadParts(*known, ABSENT if ABSENT in known or rest < 0 else rest)


def summary(columns: Columns, rows: Iterable[int]) -> dict[str, Any]:
    """Return `ledger_us` of a cell: a distribution of each part over the messages of which all parts are known.

    Beside them, of the very same messages, O and transport O; and O of the others.
    """
    parts = {row: of_row(columns, row) for row in rows}
    known = [row for row, own in parts.items() if ABSENT not in (*own, transport_ns(columns, row))]
    others = parts.keys() - {*known}
    figures = {name: summarise([parts[row][at] for row in known]) for at, name in enumerate(NAMES)}
    # O is computed from the stamps, not from the parts: so a test can find that the parts do not add up.
    whole = ((overhead_ns, known), (transport_ns, known), (overhead_ns, others))
    sums = (summarise([made(columns, row) for row in those]) for made, those in whole)
    return {**figures, **dict(zip(WHOLE, sums, strict=True))}


def negative(columns: Columns, rows: Iterable[int]) -> int:
    """Return of how many answered messages the known parts are longer than O: they are no part of the ledger."""
    return sum(own.network == ABSENT and ABSENT not in own[:-1] for own in (of_row(columns, row) for row in rows))


def gaps(columns: Columns, rows: Sequence[int], unstamped: str, bridge: Mapping[str, Any]) -> list[str]:
    """Return in sentences why the ledger of some answered messages has gaps.

    `unstamped` is why the controller's kernel stamps nothing, `bridge` what the bridge reports of itself.
    """
    if not bridge:
        return ["The bridge reports no part of O."]
    kernels = {"The controller's kernel": unstamped, "The kernel of the bridge": bridge.get("unstamped")}
    if any(kernels.values()):
        return [f"{kernel} gives no time stamps ({why})." for kernel, why in kernels.items() if why]
    every = [of_row(columns, row) for row in rows]
    counts = {why: sum(getattr(parts, name) == ABSENT for parts in every) for name, why in _GAPS.items()}
    counts["have a negative remainder: their parts are longer than O"] = negative(columns, rows)
    return [f"{count} of {len(every)} answered messages {why}." for why, count in counts.items() if count]
