"""What a study will cost and what it can find, before it is made."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import fmean, variance

from looplab.report.student import least_p, smallest_shift
from looplab.report.study_file import Study
from looplab.spec.parameters import RunParameters

# Starting and stopping a scenario's containers, warm-up, looks.
RUN_OVERHEAD_S = 7.0
# Eight runs alike on a quiet 2-core machine had an SD of their mean O of so much (FACTS of the lab's first day).
USUAL_SD = 0.10
FEWEST_RUNS = 3
# Of so many newest runs of a scenario the SD is taken.
MOST_RUNS = 20
SIGNIFICANCE = 0.05


def duration_s(runs: Iterable[RunParameters]) -> float:
    """Return about how long these runs take."""
    return sum(parameters.whole_s + RUN_OVERHEAD_S for parameters in runs)


def foresight(plan: Study, run_sd: float | None) -> Iterator[str]:
    """Yield what the study can find, and what it cannot; `run_sd` is the SD between runs as a share, None unknown."""
    counts = [count * plan.rounds for count in Counter(plan.arms.values()).values()]
    few, many = min(counts), max(counts)
    if len(counts) < 2:
        return
    sd, source = (run_sd, "as stored runs differ") if run_sd is not None else (USUAL_SD, "assumed: no runs yet")
    shift = smallest_shift(few, many)
    change = math.expm1(shift * math.log1p(sd))
    yield (
        f"With {few} and {many} runs a side, a shift of {shift:.1f} SD of a run is found in 9 of 10 studies: a change "
        f"of {change:.0%} where runs differ by {sd:.0%} ({source})."
    )
    if least_p(few, many) >= SIGNIFICANCE:
        yield f"No verdict can say 'different': p cannot go below {least_p(few, many):.2g}. Take 5 rounds or more."


def read_run_sd(results: Path, plan: Study) -> float | None:
    """Return the SD between stored runs of the study's scenarios, as a share of their mean O; None for too few."""
    found = [
        variance(logs)
        for scenario in sorted(set(plan.arms.values()))
        if len(logs := list(_logs(results, scenario, plan.options.get("FIDELITY", "thesis")))) >= FEWEST_RUNS
    ]
    return math.expm1(math.sqrt(fmean(found))) if found else None


def _logs(results: Path, scenario: str, fidelity: str) -> Iterator[float]:
    """Yield ln of the mean O over the cells, of the newest valid runs that have the cells of the newest."""
    cells = None
    for path in sorted(results.glob(f"*-{scenario}/run.json"), reverse=True)[:MOST_RUNS]:
        try:
            run = json.loads(path.read_text(encoding="utf-8"))
            means = {(cell["interval_ms"], cell["qos"]): cell["O_us"]["avg"] for cell in run["cells"]}
            if not run["valid"] or run["fidelity"] != fidelity or cells not in (None, means.keys()):
                continue
            cells = means.keys()
            yield math.log(fmean(means.values()))
        except (OSError, ValueError, KeyError, TypeError):
            continue
