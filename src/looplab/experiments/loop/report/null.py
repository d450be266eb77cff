"""What identical runs show: this machine's own difference, and how often the rule calls one that is not there."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from looplab.report.cell import Key
from looplab.report.page import show_percent
from looplab.report.samples import Measured
from looplab.report.statistics import Interval, compare, false_positives
from looplab.report.study_file import arms_of

Side = tuple[Measured, Sequence[Key]]


@dataclass(frozen=True)
class Null:
    """`arms`: the difference of two arms of one scenario by its name; `pairs`: of any two identical runs.

    `false_positive` is the share of comparisons without a difference that the verdict's test calls different.
    """

    arms: Sequence[tuple[str, Interval]]
    pairs: tuple[float, float] | None
    false_positive: float | None
    units: tuple[int, int]

    @property
    def text(self) -> str:
        """Return the note beside the verdict."""
        said = [
            f"A/A: two arms of {scenario} differ by {show_percent(share.estimate)}"
            + (f" ({show_percent(share.low)} … {show_percent(share.high)})" if share.known else "")
            for scenario, share in self.arms
        ]
        if self.pairs is not None:
            middle, most = self.pairs
            usual, worst = show_percent(middle), show_percent(most)
            said.append(f"A/A: any two identical runs differ by {usual} in the middle and {worst} at most")
        if self.false_positive is not None:
            before, after = self.units
            said.append(
                f"without a difference, {self.false_positive:.1%} of comparisons of {before} and {after} such runs are "
                "called different (1000 drawn from them; before Holm's correction)"
            )
        return "; ".join(said)


def null(
    sides: Sequence[Side],
    values: Sequence[Sequence[float]],
    figures: Callable[[Side], list[float]],
    rng: np.random.Generator,
) -> Null:
    """Return what the runs of both sides show of no difference at all; `values` are the figures that are judged."""
    apart = [abs(a / b - 1) for held in values for a, b in combinations(held, 2) if min(a, b) > 0]
    sound = [share for share in apart if np.isfinite(share)]
    pairs = (float(np.median(sound)), max(sound)) if sound else None
    arms = [(side[0].run.scenario, share) for side in sides for share in _arms(side, figures)]
    counts = [len(held) for held in values]
    return Null(list(dict(arms).items()), pairs, false_positives(values, rng), (counts[0], counts[-1]))


def _arms(side: Side, figures: Callable[[Side], list[float]]) -> Iterator[Interval]:
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
