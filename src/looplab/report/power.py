"""What a planned study can decide: how often each word comes, by simulated studies that the engine itself judges."""

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import getitem
from pathlib import Path
from statistics import fmean

import numpy as np

from looplab.report.page import show_percent
from looplab.report.rounds import vetoed
from looplab.report.rules import decided
from looplab.report.statistics import Block, compare_blocks
from looplab.report.study_file import Study
from looplab.report.verdicts import UNDECIDED, Effect, Hypotheses, Verdict, settle
from looplab.run import quiet
from looplab.run.folder import SCHEMA
from looplab.treatments.loads import loads
from looplab.treatments.loads.load import HostLoad

# The spread is the usual one of each load where no earlier runs are here.
FEWEST_DIFFERENCES = 4
# What is simulated of one truth: the chance of a word has a standard error of 3.5 points at most.
STUDIES = 200
FEW_CLAIMS = 4
SEED = 1
# A question of which nothing comes.
NOTHING = Hypotheses((1.0, 1.0), lambda *_: (UNDECIDED, ""))


@dataclass(frozen=True)
class Sides:
    """What a claim compares in a study: arms a round, rounds, and the SD of runs on either side."""

    arms: tuple[int, int]
    rounds: int
    sds: tuple[float, float]

    def draw(self, rng: np.random.Generator, change: float, level: float = 1.0) -> list[Block]:
        """Return the figures of a study whose sides differ by `change`; what rounds differ in cancels out."""
        shifts = (0.0, math.log1p(change))
        each = zip(shifts, self.sds, self.arms, strict=True)
        drawn = [level * np.exp(rng.normal(shift, sd, (self.rounds, arms))) for shift, sd, arms in each]
        return [(list(before), list(after)) for before, after in zip(*drawn, strict=True)]

    def verdict(self, rng: np.random.Generator, effect: Effect, change: float, level: float) -> Verdict:
        """Return the verdict on a simulated study, to be settled with its family."""
        blocks = self.draw(rng, change, level)
        found = compare_blocks(blocks)
        if found is None:
            return Verdict()
        verdict = decided(found, effect.rule)
        pairs = ([([block[at][0]], [block[at][1]]) for block in blocks] for at in (0, 1) if self.arms[at] == 2)
        nulls = {str(at): null for at, pair in enumerate(pairs) if (null := compare_blocks(pair))}
        if verdict.question:
            verdict.question = vetoed(verdict.question, nulls)
        return verdict


def chances(plan: Study, effects: Mapping[str, Effect], results: Path, judged: Sequence[str]) -> Iterator[str]:
    """Yield, as sentences, how likely each word is: if the published change is true, and if nothing is."""
    known = run_sds(results, plan, judged)
    sds = {name: sd for name, (sd, _) in known.items()}
    sides = {name: sides_of(plan, effect, sds) for name, effect in effects.items()}
    shown = simulated(effects, sides, {name: effect.truth for name, effect in effects.items()})
    nothing = simulated(effects, sides, dict.fromkeys(effects, 0.0))
    for name, effect in effects.items():
        size = f"{'' if effect.share is None else 'the published '}{show_percent(effect.truth)}"
        yield f"{name}: if {size} is true, {shown[name]}; if nothing is, {nothing[name]}."
    each = (f"{sd:.0%} in {name} ({f'{count} runs here' if count else 'usual'})" for name, (sd, count) in known.items())
    yield f"So often each word comes if runs of a round differ by {', '.join(each)}. The verdict comes after the last."


def sides_of(plan: Study, effect: Effect, sds: Mapping[str, float]) -> Sides:
    """Return what the study has of a claim: two cells of one scenario are compared run by run."""
    variant = next(iter(plan.variants.values()), "")
    counts = Counter(name for arm, name in plan.arms.items() if plan.variants.get(arm, "") == variant)
    first, second = effect.sides
    if first == second:
        return Sides((1, 1), plan.rounds * counts[first], (sds[first], sds[first]))
    return Sides((counts[first], counts[second]), plan.rounds, (sds[first], sds[second]))


def simulated(
    effects: Mapping[str, Effect],
    sides: Mapping[str, Sides],
    changes: Mapping[str, float],
    studies: int = 0,
    beside: int = 0,
    baseline: float = 0.0,
) -> dict[str, "Chances"]:
    """Return how often each word came of each claim, all of a study asked together as on a page.

    Beside them so many others are asked, of which nothing comes. The baseline is the published one, or that given. Of
    many claims half as many studies as usual are simulated: seconds are enough for an estimate within 10 points.
    """
    rng = np.random.default_rng(SEED)
    words: dict[str, Counter[str]] = {name: Counter() for name in effects}
    for _ in range(studies or (STUDIES if len(effects) <= FEW_CLAIMS else STUDIES // 2)):
        verdicts = {
            name: sides[name].verdict(rng, effect, changes[name], baseline or effect.baseline or 1.0)
            for name, effect in effects.items()
        }
        for family in {effect.family for effect in effects.values()}:
            others = [Verdict(question=NOTHING) for _ in range(beside)]
            settle([*(verdicts[name] for name, effect in effects.items() if effect.family == family), *others])
        for name, verdict in verdicts.items():
            words[name][f"{verdict.outcome} (A/A)" if "Two arms" in verdict.reason else verdict.outcome] += 1
    return {name: Chances(count) for name, count in words.items()}


class Chances(Counter[str]):
    """How often each word came."""

    def share(self, word: str) -> float:
        return self[word] / self.total()

    def __str__(self) -> str:
        return ", ".join(
            f"{word} {self.share(word):.0%}" for word, _ in self.most_common() if self.share(word) >= 0.005
        )


def run_sds(results: Path, plan: Study, judged: Sequence[str]) -> dict[str, tuple[float, int]]:
    """Return by scenario the SD of the logarithm of a run's `judged` figure between neighbouring runs alike, and of how
    many runs.

    Those count that a verdict may rest on, of the study's fidelity. The usual one and 0 where too few are stored.
    """
    levels: dict[str, dict[tuple[str, ...], list[float]]] = {name: {} for name in plan.arms.values()}
    for path in sorted(results.glob("[!.]*/run.json")):
        # The report names a run that is damaged or has no such figure.
        with suppress(OSError, ValueError, KeyError, TypeError):
            run = json.loads(path.read_text(encoding="utf-8"))
            alike = run["scenario"] in levels and plan.options.get("FIDELITY") in (None, run["fidelity"])
            if run["schema"] == SCHEMA and alike and run["valid"] and quiet.counts(run):
                key = (run["fidelity"], *(str((c["interval_ms"], c["qos"], c["sent"])) for c in run["cells"]))
                level = math.log(fmean(reduce(getitem, judged, cell) for cell in run["cells"]))
                levels[run["scenario"]].setdefault(key, []).append(level)
    return {name: _sd(alike) or (usual_sd(plan, name), 0) for name, alike in levels.items()}


def _sd(alike: Mapping[tuple[str, ...], Sequence[float]]) -> tuple[float, int] | None:
    squares = [(b - a) ** 2 / 2 for own in alike.values() for a, b in pairwise(own)]
    return (math.sqrt(fmean(squares)), sum(map(len, alike.values()))) if len(squares) >= FEWEST_DIFFERENCES else None


def usual_sd(plan: Study, scenario: str) -> float:
    """Return the SD of a quiet machine's runs under that load: what is sampling falls with the messages of a run."""
    load = loads().get(plan.loads.get(scenario, ""), HostLoad)
    return load.usual_sd * math.sqrt(1 - load.sampled + load.sampled * 100 / plan.messages.get(scenario, 100))
