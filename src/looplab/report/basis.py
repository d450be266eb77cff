"""On how many runs the verdicts of a page rest: what one run cannot show is said once, above all of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from looplab.report.samples import Measured
from looplab.report.statistics import FEWEST_RUNS
from looplab.report.verdicts import NO_RUN, Verdicts

_WORDS = {1: "one run", 2: "two runs"}


@dataclass(frozen=True)
class Basis:
    """Which figures rest on `few` runs, the `commands` that make them enough, those `over_runs`; "" for none."""

    few: str
    commands: Sequence[str]
    over_runs: str


def basis(verdicts: Verdicts) -> Basis:
    """Return what the verdicts with a `rests_on` rest on; claims without a run do not count."""
    found: list[Measured] = []
    for _claim, answers in verdicts:
        for verdict in answers.values():
            measured = verdict.rests_on
            if measured is not None and verdict.outcome != NO_RUN and all(measured is not other for other in found):
                found.append(measured)
    few = [m for m in found if len(m.runs) < FEWEST_RUNS]
    enough = [m for m in found if len(m.runs) >= FEWEST_RUNS]
    parts = [f"on {_WORDS[count]}: {_named(few, count)}" for count in _WORDS if _named(few, count)]
    over = ", ".join(f"{len(m.runs)} of {m}" for m in enough)
    return Basis(
        f"Verdicts and figures rest {'; '.join(parts)}." if parts else "",
        [f"./lab run {m.run.scenario} --rounds {FEWEST_RUNS} --fidelity {m.run.fidelity}" for m in few],
        f"Verdicts and figures are those over runs: {over}." if over else "",
    )


def _named(few: Sequence[Measured], runs: int) -> str:
    return ", ".join(str(m) for m in few if len(m.runs) == runs)
