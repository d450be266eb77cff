"""What a study can find, printed before it starts: by its rounds and by how much runs differ on this machine."""

import json
import math
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import reduce
from itertools import pairwise
from operator import getitem
from pathlib import Path
from statistics import NormalDist, fmean

from looplab.report.study_file import Study
from looplab.run import quiet
from looplab.run.folder import SCHEMA

# The SD of ln(mean O) of a quiet machine's runs (bench/README.md), where no earlier runs are here.
USUAL_SD = 0.10
FEWEST_DIFFERENCES = 4
SIGNIFICANCE, POWER = 0.05, 0.90


def power(plan: Study, results: Path, judged: Sequence[str], questions: int = 1) -> str:
    """Return, as sentences, the change that a study finds nine times in ten; or that it cannot find any.

    Of so many `questions` asked together the first that is answered has the strictest level (Holm 1979).
    """
    counts = sorted(Counter((name, plan.variants.get(arm, "")) for arm, name in plan.arms.items()).values())
    # Two cells of one scenario are compared run by run, two scenarios round by round; of more, the fewest arms count.
    first, second, rounds = (*counts[:2], plan.rounds) if len(counts) > 1 else (1, 1, plan.rounds * counts[0])
    ways = math.comb(first + second, first) ** rounds
    least_p = min(1.0, questions * (2 if first == second else 1) / ways)
    together = f" for {questions} questions asked together" if questions > 1 else ""
    if least_p >= SIGNIFICANCE or rounds < 3:
        least = f"of {rounds} rounds no p-value is below {least_p:.2g}{together}"
        return f"It can decide nothing: {least}. Plan more: --rounds N."
    sd, count = run_sd(results, set(plan.arms.values()), judged, plan.options.get("FIDELITY", ""))
    error = sd * math.sqrt((1 / first + 1 / second) / rounds)
    reach = NormalDist().inv_cdf(1 - SIGNIFICANCE / questions / 2) + NormalDist().inv_cdf(POWER)
    # A permutation test of few rounds needs more than a normal distribution: the factor comes from simulated studies.
    change = math.expm1(reach * (1 + 1.6 / (rounds - 1) + 2.5 / (rounds - 1) ** 2) * error)
    known = f"as {count} earlier runs here do" if count else "as on a quiet machine: none were made here yet"
    found = f"It finds a change of {change:.0%} or more in 9 of 10 studies if runs of a round differ by {sd:.0%} (SD)"
    return f"{found}, {known}{together and ','}{together}. The verdict comes after the last round."


def run_sd(results: Path, scenarios: Collection[str], judged: Sequence[str], fidelity: str = "") -> tuple[float, int]:
    """Return the SD of the logarithm of a run's `judged` figure between neighbouring runs alike, and of how many runs.

    Those count that a verdict may rest on, of one `fidelity` or of all. USUAL_SD and 0 where too few are stored. Of
    several scenarios it is that of the one whose runs differ most.
    """
    levels: dict[tuple[str, ...], list[float]] = {}
    for path in sorted(results.glob("[!.]*/run.json")):
        # The report names a run that is damaged or has no such figure.
        with suppress(OSError, ValueError, KeyError, TypeError):
            run = json.loads(path.read_text(encoding="utf-8"))
            alike = run["scenario"] in scenarios and fidelity in ("", run["fidelity"])
            if run["schema"] == SCHEMA and alike and run["valid"] and quiet.counts(run):
                key = (run["scenario"], run["fidelity"], *(str((c["interval_ms"], c["qos"])) for c in run["cells"]))
                level = math.log(fmean(reduce(getitem, judged, cell) for cell in run["cells"]))
                levels.setdefault(key, []).append(level)
    squares: dict[str, list[float]] = {}
    for (scenario, *_), own in levels.items():
        squares.setdefault(scenario, []).extend((b - a) ** 2 / 2 for a, b in pairwise(own))
    known = {scenario: own for scenario, own in squares.items() if len(own) >= FEWEST_DIFFERENCES}
    if not known:
        return USUAL_SD, 0
    most = max(known, key=lambda scenario: fmean(known[scenario]))
    return math.sqrt(fmean(known[most])), sum(len(own) for key, own in levels.items() if key[0] == most)
