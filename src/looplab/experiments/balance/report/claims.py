"""Does theory say when the robot falls, and which of the thesis's treatments matter for control at all?"""

from collections.abc import Sequence

from looplab.experiments.balance import NAME
from looplab.experiments.balance.report import balance_cells, theory
from looplab.experiments.balance.report.offline import cost_of_run
from looplab.experiments.loop.report import rounds
from looplab.report.claims import outcome_of
from looplab.report.finding import Finding, Line, asked, exact
from looplab.report.rules import directed, no_gain
from looplab.report.samples import Measured, Runs
from looplab.report.statistics import FEWEST_RUNS, compare_blocks, over_runs
from looplab.report.verdicts import (
    FEW_RUNS,
    NO_RUN,
    ONE_RUN,
    UNDECIDED,
    Claim,
    Rule,
)
from looplab.system.terminal import plural

INTERVAL_MS = 20.0
# A radius nearer to 1 than this decides nothing: pushes, levels and the jitter of T are no part of the linear loop.
NEAR_ONE = 0.02


def claims() -> list[Claim]:
    """Return the claims: theory's first, then a treatment each, by the cost of standing at 20 ms and QoS 0."""
    return [
        asked("theory", "The robot stands and falls where the linear loop says", NAME, _theory),
        _between("stress", "CPU stress makes standing dearer", "scenario1", "scenario2", +1),
        _between(
            "broker-priority", "Priority of the broker makes it cheaper under stress", "scenario2", "scenario4", -1
        ),
        _between("client-priority", "Prioritising the client as well adds nothing", "scenario4", "scenario5", 0),
        _between("flood", "A flood of the broker makes standing dearer", "scenario1", "scenario7", +1),
        _between("qos-2", "QoS 2 makes standing dearer than QoS 0", "scenario8", "scenario8", +1, qos=2),
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


def _between(name: str, title: str, before: str, after: str, direction: int, qos: int = 0) -> Claim:
    """Return a claim that compares the cost of two scenarios; of one with itself, that of QoS 0 and `qos`.

    By live runs if both sides have some, else by the loop's runs, replayed. 0: no gain.
    """

    def judge(runs: Runs) -> Finding:
        names = next(
            (pair for pair in ((f"{NAME}-{before}", f"{NAME}-{after}"), (before, after)) if {*pair} <= runs.keys()),
            None,
        )
        if names is None:
            return Finding(
                NO_RUN, f"There is no usable run of both: ./lab run {' '.join(dict.fromkeys((before, after)))}"
            )
        found = _compared([runs[one] for one in names], (0, qos), _rule(direction))
        found.reason += " By live runs." if names[0].startswith(NAME) else " By runs of the loop, replayed."
        return found

    return Claim(name, title, judge)


def _rule(direction: int) -> Rule:
    # The thesis measured no robot that stands.
    what = "The cost of standing"
    return directed(what, direction, None, claimed=False) if direction else no_gain(what)


def _compared(sides: Sequence[Measured], qos: tuple[int, int], rule: Rule) -> Finding:
    study = rounds.study_of(sides)
    within = [rounds.within(study, side) for side in sides]

    def cost(at: int) -> rounds.Value:
        return lambda one: cost_of_run(one.run, INTERVAL_MS, qos[at])

    costs = [[cost(at)(one) for one in side.runs] for at, side in enumerate(within)]
    lines = [
        Line(f"{side.run.scenario}, QoS {qos[at]}, {plural(len(costs[at]), 'run')}: cost", value, "", "")
        for at, side in enumerate(within)
        if (value := over_runs(costs[at])) is not None
    ]
    found = Finding(UNDECIDED, "", lines=lines)
    fewest = min(map(len, costs))
    bad = [one.run.run_id for side in within for one in side.runs if not one.run.valid]
    if bad:
        found.reason = f"Cannot be judged: {', '.join(bad)} INVALID."
    elif fewest < FEWEST_RUNS:
        found.outcome = ONE_RUN if fewest == 1 else FEW_RUNS
        found.reason = f"A verdict needs {FEWEST_RUNS} runs a side."
    elif not_yet := rounds.not_yet(study):
        found.outcome, found.reason = not_yet
    else:
        blocks = rounds.blocks([(side, cost(at)) for at, side in enumerate(within)], study)
        found.tested = compare_blocks(blocks) if len(blocks) >= FEWEST_RUNS else None
        found.rule = rule if found.tested else None
        found.reason = "" if found.tested else "A run has no such cell, or too few rounds have both sides."
    return found
