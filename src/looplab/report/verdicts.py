"""Claims of a publication, and the verdicts that stored runs give on them: one engine for every experiment."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from looplab.report.cell import Key
from looplab.report.samples import Runs
from looplab.report.statistics import FEWEST_RUNS, SIGNIFICANCE, Comparison, Interval, answerable, holm
from looplab.system.words import plural

FIDELITIES = ("thesis", "corrected")
REPRODUCED, OTHER_SCALE, NOT_REPRODUCED = "reproduced", "same direction, other scale", "not reproduced"
# What a constant decides that was fitted to the published figure confirms nothing.
UNDECIDED, BY_CONSTRUCTION, NO_VERDICT = "undecided", "by construction", "no verdict"
# A sign beside each word: in grey print, colours say nothing.
SIGNS = {
    REPRODUCED: "✓",
    OTHER_SCALE: "∝",
    NOT_REPRODUCED: "✗",
    UNDECIDED: "?",
    BY_CONSTRUCTION: "≡",
    NO_VERDICT: "–",
}
# Why there is no verdict. INTERIM: the rounds of a study are not all done; NO_PLAN: nobody settled how many there are.
NOT_RUN, INTERIM, NO_PLAN, NO_CONTRAST = "not run", "interim", "no plan", "no contrast"
ONE_RUN, TWO_RUNS = "one run", "two runs"

# Where nothing was published, a change of this size is a clear one.
CLEAR = 0.30

# A word and its reason.
Outcome = tuple[str, str]


@dataclass(frozen=True)
class Hypotheses:
    """What a verdict asks of the data, together with the others of its family.

    `p_values` are those of no difference and of one that matters. `decide` takes both as adjusted, and how many
    questions were asked together. `least_p` is the smallest p-value that there could be.
    """

    p_values: tuple[float, float]
    decide: Callable[[float, float, int], Outcome]
    least_p: float = 0.0


@dataclass(frozen=True)
class Line:
    """One figure behind a verdict, with its interval if there is one.

    Of a figure of two sides, `compared` holds both in `unit`, and the value is the change as a share.
    """

    what: str
    value: Interval
    published: str = ""
    unit: str = "×"
    compared: Comparison | None = None


@dataclass(frozen=True)
class Printed:
    """A figure of both sides as published, None where it is not."""

    before: float | None = None
    after: float | None = None
    figure: str = ""

    @property
    def share(self) -> float | None:
        return self.after / self.before - 1 if self.before and self.after else None

    @property
    def change(self) -> float | None:
        return self.after - self.before if self.before and self.after else None


@dataclass
class Verdict:
    """The answer to one claim at one fidelity, why, and other causes that the runs show.

    A verdict with a `question` is settled once the p-values of its whole family are known. `because` says why there is
    no verdict. `tested` is the comparison that decides, `share` its change and `published` the published one: the
    figure of all claims shows them. `sides` and `cells` name what is compared, `run_ids` the runs that count.
    """

    outcome: str = UNDECIDED
    reason: str = ""
    notes: list[str] = field(default_factory=list)
    lines: Sequence[Line] = ()
    because: str = ""
    question: Hypotheses | None = None
    tested: Comparison | None = None
    share: Interval | None = None
    published: Printed = Printed()
    sides: tuple[str, str] = ("before", "after")
    cells: str = ""
    run_ids: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.because:
            self.outcome = NO_VERDICT

    @property
    def word(self) -> str:
        """The outcome; of no verdict also why."""
        return f"{self.outcome}: {self.because}" if self.because else self.outcome

    @property
    def because_and_reason(self) -> str:
        """The reason; of no verdict after the words that say why."""
        return f"{self.because}: {self.reason}" if self.because else self.reason

    @property
    def run(self) -> bool:
        """Whether there are runs to answer the claim."""
        return self.because != NOT_RUN

    def withdraw(self, reason: str, because: str = "") -> None:
        """Leave the verdict undecided; with `because` give none."""
        self.outcome, self.because, self.reason = NO_VERDICT if because else UNDECIDED, because, reason
        self.question = None


def not_run(reason: str, lines: Sequence[Line] = ()) -> Verdict:
    """Return the answer to a claim for which the runs, or cells in them, are missing."""
    return Verdict(reason=reason, lines=lines, because=NOT_RUN)


@dataclass(frozen=True)
class Effect:
    """What a claim compares, as it is known before the first run: two scenarios, or one with itself; what decides.

    `share` and `baseline` are published. Without a `share`, a change in the `direction` of the claim may be true.
    """

    sides: tuple[str, str]
    rule: Callable[[Comparison], Hypotheses]
    share: float | None = None
    baseline: float | None = None
    direction: int = 0
    family: str = ""

    @property
    def truth(self) -> float:
        """The change to take for true: the published one, else a clear one."""
        return CLEAR * self.direction if self.share is None else self.share


# The keys of the cells that a study measures, by scenario.
Planned = Mapping[str, Collection[Key]]


@dataclass(frozen=True)
class Claim:
    """`judge` answers the claim from the runs of one fidelity.

    Its p-values are adjusted for the claims of its family alone: a remark in passing takes no power from a finding.
    `effect` is what it compares in planned cells, None where it is about something else. `./lab study` plans its runs
    by the name `study`.
    """

    name: str
    title: str
    judge: Callable[[Runs], Verdict]
    family: str = ""
    effect: Callable[[Planned], Effect | None] = lambda _planned: None
    study: str = ""


def too_few(runs: int) -> str:
    """Return why there is no verdict on so few runs, "" if there may be one."""
    return "" if runs >= FEWEST_RUNS else ONE_RUN if runs == 1 else TWO_RUNS


def units(figures: Iterable[Sequence[float]]) -> list[float]:
    """Return what counts once, from the figures of each run's repetitions: the mean of each run; each figure of a few.

    Repetitions of one run are alike in what runs differ in. Runs without a figure are left out.
    """
    known = [by_run for by_run in figures if by_run]
    if len(known) < FEWEST_RUNS:
        return [figure for by_run in known for figure in by_run]
    return [fmean(by_run) for by_run in known]


# Each claim with its verdict by fidelity.
Verdicts = Sequence[tuple[Claim, Mapping[str, Verdict]]]


def judge(claims: Iterable[Claim], runs: Mapping[str, Runs]) -> Verdicts:
    """Return the verdicts on `claims` from the runs by fidelity; p-values are adjusted for all of a family.

    By Holm, over the questions that so many runs could answer at all.
    """
    names = [*(name for name in runs if name not in FIDELITIES), *FIDELITIES]
    judged = [(claim, {name: claim.judge(runs.get(name, {})) for name in names}) for claim in claims]
    for family in {claim.family for claim, _ in judged}:
        settle(verdict for claim, answers in judged if claim.family == family for verdict in answers.values())
    return judged


def settle(family: Iterable[Verdict]) -> None:
    """Decide the verdicts of one family that ask a question."""
    asked = [(verdict, verdict.question) for verdict in family if verdict.question]
    counted = answerable([question.least_p for _, question in asked])
    adjusted = dict(zip(counted, holm([asked[at][1].p_values for at in counted]), strict=True))
    for at, (verdict, question) in enumerate(asked):
        together = max(1, len(counted))
        difference, equivalence = adjusted.get(at, (1.0, 1.0))
        verdict.outcome, verdict.reason = question.decide(difference, equivalence, together)
        if verdict.outcome == UNDECIDED and verdict.tested:
            verdict.reason += _why_undecided(verdict.tested, together)


def _why_undecided(comparison: Comparison, questions: int) -> str:
    """Return, as a sentence to add, why a comparison decides nothing; `questions` were asked together."""
    before, after = comparison.units
    alone = comparison.least_p >= SIGNIFICANCE
    least = comparison.least_p if alone else min(1.0, comparison.least_p * questions)
    if least >= SIGNIFICANCE:
        together = "" if alone else f", adjusted for {questions} questions,"
        return (
            f" With {before} and {after} runs, an exact permutation p{together} cannot go below {least:.2g}: more runs "
            "a side are needed, whatever they show."
        )
    return f" p is {comparison.p_value:.3g}, with {plural(questions, 'question')} asked together." * (questions > 1)
