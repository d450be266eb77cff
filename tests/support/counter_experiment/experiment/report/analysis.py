"""From measured runs of the counter to its claim, its CSV file and its page."""

from collections.abc import Sequence

import numpy as np

from looplab.report.samples import Measured, Runs, by_fidelity
from looplab.report.shell import Analysis, number
from looplab.report.verdicts import NO_RUN, NOT_REPRODUCED, REPRODUCED, Claim, Verdict, judge


def analyse(measured: Sequence[Measured]) -> Analysis:
    """Return what these runs show: one of each fidelity."""
    verdicts = judge([Claim("longer", "A sleep takes at least as long as asked", _longer)], by_fidelity(measured))
    rows = [
        {"run_id": m.run.run_id, "cell": str(cell), "mean_us": number(cell.statistic("S", "avg"))}
        for m in measured
        for cell in m.cells.values()
    ]
    return Analysis(verdicts, [], {"counter-cells.csv": rows}, {"sections": {}.items()})


def _longer(runs: Runs, _random: np.random.Generator) -> Verdict:
    cells = [cell for m in runs.values() for cell in m.cells.values()]
    if not cells:
        return Verdict(NO_RUN, "There is no run.")
    shortest = [(cell.statistic("S", "min") or 0) / (1000 * float(cell.key[0])) for cell in cells]
    outcome = REPRODUCED if min(shortest) >= 1 else NOT_REPRODUCED
    return Verdict(outcome, f"The shortest sleep took {min(shortest):.2f} times as long as asked.")
