"""Does theory say when the robot falls, and which of the thesis's treatments matter for control at all?"""

from collections.abc import Sequence
from dataclasses import dataclass

from looplab.experiments.balance import COMPARED, NAME
from looplab.experiments.balance.report import balance_cells, theory
from looplab.experiments.balance.report.offline import figure_of_run
from looplab.experiments.loop.report import rounds
from looplab.experiments.loop.report.comparison import planned, unfit
from looplab.report.claims import outcome_of
from looplab.report.finding import Finding, Line, asked, exact
from looplab.report.rules import directed, no_gain
from looplab.report.samples import Measured, Runs
from looplab.report.statistics import FEWEST_RUNS, compare_blocks, over_runs
from looplab.report.verdicts import NO_RUN, UNDECIDED, Claim, Rule, too_few
from looplab.system.words import plural

INTERVAL_MS = 20.0
# A radius nearer to 1 than this decides nothing: pushes, levels and the jitter of T are no part of the linear loop.
NEAR_ONE = 0.02


# What is compared by run: its unit, and how a reason names it.
COST, UPRIGHT = "cost", "upright_s"
FIGURES = {COST: ("", "the cost of standing"), UPRIGHT: ("s", "the time upright")}


def claims() -> list[Claim]:
    """Return theory's claim, then each treatment's by the cost of standing at 20 ms; by its time, in another family."""
    lines = [
        ("stress", "CPU stress makes standing dearer", "CPU stress fells the robot earlier", +1),
        ("broker-priority", "Under stress, broker priority makes it cheaper", "Broker priority fells it later", -1),
        ("client-priority", "Prioritising the client as well adds nothing", "Client priority fells it later", 0),
        ("flood", "A flood of the broker makes standing dearer", "A flood of the broker fells the robot earlier", +1),
        ("qos-2", "QoS 2 makes standing dearer than QoS 0", "At QoS 2 the robot falls earlier than at QoS 0", +1),
    ]
    return [
        asked("theory", "The robot stands and falls where the linear loop says", NAME, _theory),
        *(_between(f"{NAME}-{name}", title, direction) for name, title, _, direction in lines),
        *(_between(f"{NAME}-{name}", title, -direction or 1, UPRIGHT) for name, _, title, direction in lines),
    ]


def _theory(run: Measured) -> Finding:
    """Compare each cell's fall with the spectral radius at its interval and median T."""
    feedback = theory.feedback_of_run(run.run.parameters)
    agrees: list[bool | None] = []
    lines, paused = [], []
    for cell in balance_cells(run):
        total_us, upright_s = cell.statistic("T", "p50"), cell.figure("upright_s")
        if total_us is None or upright_s is None:
            continue
        interval_s = cell.interval_ms / 1000
        count = theory.intervals_of_delay(total_us / 1e6, interval_s)
        radius = theory.spectral_radius(feedback, interval_s, count * interval_s)
        stood = upright_s >= STOOD * cell.length_s(run.run.repetitions)
        agrees.append(None if abs(radius - 1) < NEAR_ONE else stood == (radius < 1))
        lines.append(Line(f"radius {radius:.3f} at {cell}: stood", exact(upright_s), "", "s"))
        if radius < 1 and not stood and (oldest_us := cell.figure("age.max")):
            paused.append(f"{cell}: a command followed a reading {oldest_us / 1000:.0f} ms old; theory knows no pause.")
    if not lines:
        return Finding(NO_RUN, "The run has no cell with an answer.")
    words = f"{sum(one is True for one in agrees)} of {len(agrees)} cells do what the spectral radius says"
    return Finding(outcome_of(agrees), f"{words}; it falls from 1 on.", paused, lines=lines)


# The last message of a cell leaves an interval before its end, and the robot is released after the first.
STOOD = 0.9


@dataclass
class Standing(rounds.OfSides, Finding):
    """A verdict on how the robot stands on two sides."""


def _between(study: str, title: str, direction: int, figure: str = COST) -> Claim:
    """Return a claim that compares a figure of two scenarios; of one with itself, at QoS 0 and at QoS 2.

    By live runs if both sides have some, else by the loop's runs, replayed. 0: no gain.
    """
    before, after = COMPARED[study][0], COMPARED[study][-1]
    qos = (0, 2 if before == after else 0)
    # The thesis measured no robot that stands.
    what = FIGURES[figure][1].capitalize()
    rule = directed(what, direction, None, claimed=False) if direction else no_gain(what)

    def judge(runs: Runs) -> Finding:
        pairs = ((f"{NAME}-{before}", f"{NAME}-{after}"), (before, after))
        names = next((pair for pair in pairs if {*pair} <= runs.keys()), None)
        if names is None:
            return Finding(NO_RUN, f"There is no usable run of both: ./lab study {study}")
        finding = _compared([runs[one] for one in names], qos, figure, rule)
        finding.notes.append("By live runs." if names == pairs[0] else "By runs of the loop, replayed.")
        return finding

    return Claim(study, title, judge) if figure == COST else Claim(f"{study}-stands", title, judge, "stands")


def _compared(sides: Sequence[Measured], qos: tuple[int, int], figure: str, rule: Rule) -> Finding:
    study = rounds.study_of(sides)
    first = rounds.within(study, sides[0])
    # The very same object: two cells of one run are compared within it.
    within = [first, first if sides[1] is sides[0] else rounds.within(study, sides[1])]

    def of_run(at: int) -> rounds.Value:
        return lambda one: figure_of_run(one.run, figure, INTERVAL_MS, qos[at])

    values = [(side, of_run(at)) for at, side in enumerate(within)]
    figures = [[value(one) for one in side.runs] for side, value in values]
    unit, what = FIGURES[figure]
    lines = [
        Line(f"{side.run.scenario}, QoS {qos[at]}, {plural(len(figures[at]), 'run')}: {what}", mean, "", unit)
        for at, side in enumerate(within)
        if (mean := over_runs(figures[at])) is not None
    ]
    left_out = dict.fromkeys(rounds.left_out_notes(study, *zip(sides, within, strict=True)))
    standing = Standing(UNDECIDED, unfit(within), [planned(study), *left_out], lines=lines)
    if standing.reason:
        return standing
    few = too_few(min(map(len, figures)))
    if not_yet := (few, f"A verdict needs {FEWEST_RUNS} runs a side.") if few else rounds.not_yet(study):
        standing.outcome, standing.reason = not_yet
        return standing
    standing.nulls = rounds.nulls(values, study)
    standing.notes += [standing.null] if standing.nulls else []
    standing.tested, standing.rule = compare_blocks(rounds.blocks(values, study)), rule
    standing.reason = "" if standing.tested else "A run has no such cell, or too few rounds have both sides."
    return standing
