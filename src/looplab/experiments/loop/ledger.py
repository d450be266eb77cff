"""The ledger: of what each message's O is made, by the kernel's time stamps; durations alone, in ns.

    controller   sent |-- send path --> kernel ... network and broker ...  kernel --- wake-up --->| received
    bridge                                 kernel --- wake-up --->| R1 ... R2 |-- send path --> kernel

One machine's clock times each part except the last. Network and broker is the remainder, so the sum is O exactly.
"""

from collections.abc import Iterable
from typing import Any

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


def of_row(columns: Columns, row: int) -> tuple[int, ...]:
    """Return the parts of an answered message's O in the order of NAMES, ABSENT where unknown; its R is known.

    The network is what the others leave of O. It is unknown if one of them is, or if they are longer than O.
    """
    send_path, wake_up = (
        max(ABSENT, between(begin, end, columns, row))
        for begin, end in (("sent_ns", "left_ns"), ("arrived_ns", "received_ns"))
    )
    known = (send_path, wake_up, columns["bridge_wake_up_ns"][row], columns["bridge_send_path_ns"][row])
    rest = overhead_ns(columns, row) - sum(known)
    return *known, ABSENT if ABSENT in known or rest < 0 else rest


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
    return sum(own[-1] == ABSENT and ABSENT not in own[:-1] for own in (of_row(columns, row) for row in rows))
