"""Claims of a publication, and the verdicts that stored runs give on them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import NamedTuple

from looplab.report.samples import Measured, Runs
from looplab.report.statistics import FEWEST_RUNS, SIGNIFICANCE, Comparison, answerable, holm

FIDELITIES = ("thesis", "corrected")
REPRODUCED, WEAKER, NOT_REPRODUCED = "reproduced", "weaker than published", "not reproduced"
# What a constant decides that was fitted to the published figure confirms nothing.
OTHER_SCALE, BY_CONSTRUCTION = "same direction, other scale", "by construction"
OPPOSITE, NO_CONTRAST, UNDECIDED = "opposite", "no contrast applied", "undecided"
ONE_RUN, FEW_RUNS, NO_RUN = "one run: no verdict", "two runs: no verdict", "not run"
# A study whose rounds are not all done, and runs of which nobody settled before how many there would be.
INTERIM, NO_PLAN = "interim: no verdict", "no plan: no verdict"
TOO_FEW = (ONE_RUN, FEW_RUNS, INTERIM, NO_PLAN)
# A sign beside each word: in grey print, colours say nothing.
SIGNS = {
    REPRODUCED: "✓",
    WEAKER: "≈",
    OTHER_SCALE: "∝",
    BY_CONSTRUCTION: "≡",
    NOT_REPRODUCED: "✗",
    OPPOSITE: "↔",
    NO_CONTRAST: "=",
    UNDECIDED: "?",
}
# Fixed, so that the same runs give the same report.
SEED = 20201028
_WORDS = {1: "one run", 2: "two runs"}


class Adjusted(NamedTuple):
    """The p-values of a claim's two questions, adjusted for all of the page: no difference; one that matters."""

    difference: float
    equivalence: float


class Question(NamedTuple):
    """What a verdict asks of the data: its p-values, and the smallest that there could be."""

    p_values: Adjusted
    least_p: float = 0.0


@dataclass(frozen=True)
class Rule:
    """How a comparison decides a claim.

    `decide` returns outcome and reason; `equivalence` the p-value of a difference that matters. A claim that sides are
    `alike` can be reproduced by the second alone.
    """

    decide: Callable[[Comparison, Adjusted], tuple[str, str]]
    equivalence: Callable[[Comparison], float]
    alike: bool = False


@dataclass
class Verdict:
    """The answer to one claim at one fidelity, why, and other causes that the runs show.

    A verdict that rests on a test is `tested` by `rule`, once the p-values of all claims are known. `rests_on` are the
    runs of a claim without a study: the page names how many they are.
    """

    outcome: str
    reason: str
    notes: list[str] = field(default_factory=list)
    tested: Comparison | None = None
    rule: Rule | None = None
    rests_on: Measured | None = field(default=None, compare=False, repr=False)

    @property
    def glance(self) -> str:
        """The figure for the overview, "" if there is none."""
        return ""

    @property
    def question(self) -> Question | None:
        """What is asked together with the other claims of its family; None for a verdict without a test."""
        if self.rule is None or self.tested is None:
            return None
        p_values = Adjusted(self.tested.p_value, self.rule.equivalence(self.tested))
        return Question(p_values, 0.0 if self.rule.alike else self.tested.least_p)

    def withdraw(self, outcome: str, reason: str) -> None:
        """Give an outcome that no test decides."""
        self.outcome, self.reason, self.tested, self.rule = outcome, reason, None, None

    def settle(self, p_values: Adjusted, questions: int) -> None:
        """Decide by the adjusted p-values; say what `questions` asked together cost."""
        assert self.tested is not None
        assert self.rule is not None
        self.outcome, self.reason = self.rule.decide(self.tested, p_values)
        if self.outcome == UNDECIDED:
            self.reason += why_undecided(self.tested, questions)


@dataclass(frozen=True)
class Claim:
    """`judge` answers the claim from the runs of one fidelity.

    Its p-values are adjusted for the claims of its family alone: a remark in passing takes no power from a finding.
    """

    name: str
    title: str
    judge: Callable[[Runs], Verdict]
    family: str = ""


def units(figures: Iterable[Sequence[float]]) -> list[float]:
    """Return what counts once, from the figures of each run's repetitions: the mean of each run; each figure of a few.

    Repetitions of one run are alike in what runs differ in. Runs without a figure are left out.
    """
    known = [by_run for by_run in figures if by_run]
    if len(known) < FEWEST_RUNS:
        return [figure for by_run in known for figure in by_run]
    return [fmean(by_run) for by_run in known]


def too_few(runs: int) -> str:
    """Return the outcome of a claim on so few runs, "" if they may give a verdict."""
    return "" if runs >= FEWEST_RUNS else ONE_RUN if runs == 1 else FEW_RUNS


# Each claim with its verdict by fidelity.
Verdicts = Sequence[tuple[Claim, Mapping[str, Verdict]]]


def judge(claims: Iterable[Claim], runs: Mapping[str, Runs]) -> Verdicts:
    """Return the verdicts on `claims` from the runs by fidelity; p-values are adjusted for all of a family.

    By Holm, over the questions that so many runs could answer at all.
    """
    names = [*(name for name in runs if name not in FIDELITIES), *FIDELITIES]
    judged = [(claim, {name: claim.judge(runs.get(name, {})) for name in names}) for claim in claims]
    for family in {claim.family for claim, _ in judged}:
        _settle(verdict for claim, answers in judged if claim.family == family for verdict in answers.values())
    return judged


def _settle(family: Iterable[Verdict]) -> None:
    """Decide the verdicts of one family that rest on a test."""
    asked = [(verdict, question) for verdict in family if (question := verdict.question)]
    counted = answerable([question.least_p for _, question in asked])
    p_values = [asked[at][1].p_values for at in counted]
    adjusted = {at: Adjusted(*both) for at, both in zip(counted, holm(p_values), strict=True)}
    for at, (verdict, _) in enumerate(asked):
        verdict.settle(adjusted.get(at, Adjusted(1.0, 1.0)), max(1, len(counted)))


def why_undecided(comparison: Comparison, questions: int) -> str:
    """Return, as a sentence to add, why a comparison decides nothing; `questions` were asked together."""
    before, after = comparison.units
    alone = comparison.least_p >= SIGNIFICANCE
    least = comparison.least_p if alone else min(1.0, comparison.least_p * questions)
    if least >= SIGNIFICANCE:
        asked = "" if alone else f", adjusted for {questions} questions,"
        return (
            f" With {before} and {after} runs, an exact permutation p{asked} cannot go below {least:.2g}: more runs a "
            "side are needed, whatever they show."
        )
    return f" p is {comparison.p_value:.3g}, with {questions} questions asked together." if questions > 1 else ""


@dataclass(frozen=True)
class Basis:
    """Which figures rest on `few` runs, the `commands` that make them enough, those `over_runs`; "" for none."""

    few: str
    commands: Sequence[str]
    over_runs: str


def basis(verdicts: Verdicts) -> Basis:
    """Return what the verdicts with a `rests_on` rest on; claims without a run do not count."""
    decisive: list[Measured] = []
    for _claim, answers in verdicts:
        for verdict in answers.values():
            measured = verdict.rests_on
            if measured is not None and verdict.outcome != NO_RUN and all(measured is not other for other in decisive):
                decisive.append(measured)
    few = [m for m in decisive if len(m.runs) < FEWEST_RUNS]
    enough = [m for m in decisive if len(m.runs) >= FEWEST_RUNS]
    parts = [f"on {_WORDS[count]}: {_named(few, count)}" for count in _WORDS if _named(few, count)]
    over = ", ".join(f"{len(m.runs)} of {m}" for m in enough)
    return Basis(
        f"Figures rest {'; '.join(parts)}. They give no verdict." if parts else "",
        [f"./lab run {m.run.scenario} --rounds {FEWEST_RUNS} --fidelity {m.run.fidelity}" for m in few],
        f"Verdicts and figures are those over runs: {over}." if over else "",
    )


def _named(few: Sequence[Measured], runs: int) -> str:
    return ", ".join(str(m) for m in few if len(m.runs) == runs)
