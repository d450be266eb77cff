"""What two arms of one scenario in a study differ by: this machine's own difference, with nothing behind it."""

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from looplab.report.cell import Key
from looplab.report.page import show_percent
from looplab.report.samples import Measured
from looplab.report.statistics import Interval, compare
from looplab.report.study_file import arms_of

Side = tuple[Measured, Sequence[Key]]
Figures = Callable[[Side], list[float]]


def null_text(sides: Sequence[Side], figures: Figures) -> str:
    """Return the note beside a verdict: the difference of two arms of each scenario that has them."""
    arms = {side[0].run.scenario: share for side in sides for share in _arms(side, figures)}
    return "; ".join(
        f"A/A: two arms of {scenario} differ by {show_percent(share.estimate)}"
        + (f" ({show_percent(share.low)} … {show_percent(share.high)})" if share.known else "")
        for scenario, share in arms.items()
    )


def _arms(side: Side, figures: Figures) -> Iterator[Interval]:
    """Yield the difference of the arms that ran this scenario under two names."""
    measured, keys = side
    by_study: dict[str, dict[str, list[float]]] = {}
    arms = arms_of(measured.run.path.parent)
    for one in measured.runs:
        if one.run.run_id in arms:
            study, arm = arms[one.run.run_id]
            by_study.setdefault(study, {}).setdefault(arm, []).extend(figures((one, keys)))
    for held in by_study.values():
        values = [held[arm] for arm in sorted(held)]
        if len(values) == 2 and all(np.isfinite(side).all() and min(side) > 0 for side in values):
            found = compare(*values)
            yield found.share if found else _share(*values)


def _share(before: Sequence[float], after: Sequence[float]) -> Interval:
    """Return the change between two sides too small for an interval."""
    return Interval(float(np.exp(np.mean(np.log(after)) - np.mean(np.log(before)))) - 1, math.nan, math.nan)
