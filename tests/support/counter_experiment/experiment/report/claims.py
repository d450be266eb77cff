"""The claim about sleeps."""

from collections.abc import Sequence

from looplab.report.cell import MeasuredCell
from looplab.report.claims import at_least, claims_of
from looplab.report.samples import Measured
from looplab.report.verdicts import Claim


def claims() -> list[Claim]:
    longest = at_least("over_asked", 1, _cells, "no cell", "times the sleep asked for")
    return claims_of("counter", {("longer", "A sleep takes at least as long as asked"): longest})


def _cells(run: Measured) -> Sequence[MeasuredCell]:
    return list(run.cells.values())
