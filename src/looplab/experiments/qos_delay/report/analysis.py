"""From measured runs of qos-delay to everything that the report shows."""

from collections.abc import Sequence

import numpy as np

from looplab.experiments.qos_delay.report.claims import add_causes, claims
from looplab.experiments.qos_delay.report.figures import TITLES, sketches
from looplab.report.analysis import Analysis, analysis
from looplab.report.finding import Finding
from looplab.report.samples import Measured, by_fidelity
from looplab.report.statistics import Interval
from looplab.report.verdicts import Claim, Verdict, judge


def analyse(measured: Sequence[Measured]) -> Analysis:
    """Return what these runs show: one of each fidelity."""
    runs = {fidelity: next(iter(by_scenario.values())) for fidelity, by_scenario in by_fidelity(measured).items()}
    verdicts = judge(claims(), by_fidelity(measured))
    add_causes(runs, verdicts)
    return analysis(
        "qos-delay",
        measured,
        verdicts,
        sketches=[sketch for run in runs.values() for sketch in sketches(run)],
        titles=TITLES,
        axis="measured over published (mean of the cells)",
        compared=_compared,
        same="as published",
    )


def _compared(_claim: Claim, finding: Verdict) -> tuple[Interval | None, float | None]:
    """Return how far the figures are from the published ones, as a share; None where none was published."""
    assert isinstance(finding, Finding)
    over = [line.value.over(float(line.published.split()[-1])) for line in finding.lines if line.published]
    if not over:
        return None, None
    mean = Interval(*(float(np.mean([getattr(one, end) for one in over])) for end in ("estimate", "low", "high")))
    return mean.change, 0.0
