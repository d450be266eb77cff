"""The ledger: of what each message's O is made, by the kernel's time stamps; durations alone, in ns.

    controller   sent |-- send path --> kernel ... network and broker ...  kernel --- wake-up --->| received
    bridge                                 kernel --- wake-up --->| R1 ... R2 |-- send path --> kernel

One machine's clock times each part except the last. Network and broker is the remainder, so the sum is O exactly.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from looplab.run.accounting import Columns, summarise
from looplab.run.samples import ABSENT

COLUMNS = ("bridge_wake_up_ns", "bridge_send_path_ns")
# The columns that make up the parts, beside R.
STAMPS = ("received_ns", "sent_ns", "left_ns", "arrived_ns", *COLUMNS)
NAMES = {
    "send_path": "controller's send path",
    "wake_up": "controller's wake-up",
    "bridge_wake_up": "bridge's wake-up",
    "bridge_send_path": "bridge's send path",
    "network": "network and broker",
}


class Parts(NamedTuple):
    """The parts of one message's O, ABSENT where unknown; named as NAMES are."""

    send_path: int
    wake_up: int
    bridge_wake_up: int
    bridge_send_path: int
    network: int


def parts(overhead: int, *stamps: int) -> Parts:
    """Return the parts of an O of which the STAMPS are given; the network is what the others leave of it.

    It is unknown if one of them is, or if they are longer than O.
    """
    received, sent, left, arrived, bridge_wake_up, bridge_send_path = stamps
    known = (_between(sent, left), _between(arrived, received), bridge_wake_up, bridge_send_path)
    rest = overhead - sum(known)
    return Parts(*known, ABSENT if ABSENT in known or rest < 0 else rest)


def _between(begin: int, end: int) -> int:
    return ABSENT if ABSENT in (begin, end) or end < begin else end - begin


def of_row(columns: Columns, row: int) -> Parts:
    """Return the parts of an answered message's O, whose R is known."""
    stamps = [columns[name][row] for name in STAMPS]
    return parts(stamps[0] - stamps[1] - columns["robot_ns"][row], *stamps)


def whole(columns: Columns, rows: Iterable[int]) -> list[Parts]:
    """Return the parts of those answered messages of which all are known."""
    return [found for row in rows if ABSENT not in (found := of_row(columns, row))]


def summary(columns: Columns, rows: Iterable[int]) -> dict[str, Any]:
    """Return `ledger_us` of a cell: a distribution of each part over the messages of which all parts are known."""
    found = whole(columns, rows)
    return {name: summarise([part[at] for part in found]) for at, name in enumerate(NAMES)}


def gaps(columns: Columns, rows: Iterable[int], unstamped: str, bridge: Mapping[str, Any]) -> list[str]:
    """Say in sentences why the ledger of some answered messages has gaps.

    `unstamped` is why the controller's kernel stamps nothing, `bridge` what the bridge reports of itself.
    """
    found = []
    if unstamped:
        found.append(f"The controller's kernel gives no time stamps ({unstamped}).")
    if why := bridge.get("unstamped"):
        found.append(f"The kernel of the bridge gives no time stamps ({why}).")
    if found:
        return found
    every = [of_row(columns, row) for row in rows]
    counts = {
        "came in together with later ones, and the kernel stamps only the last": _unknown(every, "wake_up"),
        "left without a stamp of the kernel": _unknown(every, "send_path"),
        "came to the bridge together with later ones": _unknown(every, "bridge_wake_up"),
        "had no later answer with which the bridge could report its part": _unknown(every, "bridge_send_path"),
    }
    return [f"{count} of {len(every)} answered messages {why}." for why, count in counts.items() if count]


def _unknown(found: Iterable[Parts], name: str) -> int:
    return sum(getattr(part, name) == ABSENT for part in found)
