"""What the thesis claims, as rows that stored runs answer; beside QoS 2, how much of it was Nagle's algorithm."""

import math
from collections.abc import Collection, Mapping, Sequence
from functools import partial

import numpy as np

from looplab.experiments.loop import EXPERIMENT
from looplab.experiments.loop.fitted import FITTED_CONSTANTS, Fitted, fitted
from looplab.experiments.loop.report import MeasuredLoop, cells_of, cells_text, lost_messages, published
from looplab.report.cell import QUANTILES, Key, quantile
from looplab.report.claims import Row, asked, rows
from looplab.report.page import show_percent
from looplab.report.rounds import compared
from looplab.report.rules import DIRECTIONS, NEAR, Answer, by_construction, rule_of, stated, without_constant
from looplab.report.samples import MeasuredRuns, Runs
from looplab.report.statistics import UNKNOWN, over_runs
from looplab.report.verdicts import NO_CONTRAST, Claim, Effect, Planned, Printed, Verdict, Verdicts, not_run

# Figures of O, as the thesis has them, and of the response, where a lost message counts.
FIGURES = ("O mean", "O p50", "O p95", "response p50", "response p95")
# Whose scheduling a claim on priority is about.
_PRIORITISED = {"priority_broker": "broker", "priority_controller": "controller"}


def claims() -> list[Claim]:
    """Return the thesis's claims in the order of its chapters."""
    return [claim(row) for row in rows(EXPERIMENT)]


def claim(row: Row) -> Claim:
    """Return the claim of a line: two scenarios, or cells `within` one, compared by `figure`; on losses; on a share.

    Cells `within` one are those of two QoS at each interval ("QoS 1; QoS 2"), or of two intervals at QoS 0.
    """
    lost = lost_messages.CLAIMS.get(row.name)
    answer = lost.answer if lost else _robot_share if row.rule == "share" else partial(_compared, row)
    return asked(
        EXPERIMENT,
        row,
        partial(_with_constants, row, answer),
        lost.keys if lost else None,
        effect=partial(_effect, row),
    )


def _with_constants(row: Row, answer: Answer, *used: MeasuredRuns) -> Verdict:
    """Return the answer with the fitted constants on which its figure depends."""
    verdict = answer(*used)
    verdict.notes += [f"Fitted: {one}" for one in constants_of(row.figure, used)]
    return verdict


def _effect(row: Row, planned: Planned) -> Effect | None:
    """Return what a row compares in the planned cells; None without them, and of a figure whose spread is unknown."""
    scenarios = row.scenarios.split("; ")
    if row.figure != "O mean" or not {*scenarios} <= planned.keys():
        return None
    before, _after, printed = _sides(row, planned)
    rule, direction = rule_of(row.rule, row.what, printed), DIRECTIONS.get(row.rule, 0)
    sides = scenarios[0], scenarios[-1]
    return Effect(sides, rule, printed.share, printed.before, direction, row.family) if before else None


def _sides(row: Row, cells: Planned) -> tuple[list[Key], list[Key], Printed]:
    """Return the cells before and after, of those of each scenario, and their published figures; [] without both."""
    scenarios = row.scenarios.split("; ")
    first, last = scenarios[0], scenarios[-1]
    before, after = _within(row, cells[first]) if row.within else (_common(first, last, cells),) * 2
    # As published: no figure of the response is.
    figure = "O mean" if row.figure.startswith("response") else row.figure
    printed = Printed(published.mean_us(first, before, figure), published.mean_us(last, after, figure), figure)
    return before, after, printed


def _within(row: Row, keys: Collection[Key]) -> tuple[list[Key], list[Key]]:
    """Return the cells before and after of one scenario, [] without both."""
    both = [side.split() for side in row.within.split("; ")]
    if both[0][0] == "QoS":
        first, second = (int(number) for _, number in both)
        intervals = [ms for ms, qos in sorted(keys) if qos == second and (ms, first) in keys]
        return [(ms, first) for ms in intervals], [(ms, second) for ms in intervals]
    before, after = ((float(number), 0) for number, _ in both)
    return ([before], [after]) if {before, after} <= set(keys) else ([], [])


def _compared(row: Row, *used: MeasuredRuns) -> Verdict:
    """Compare two scenarios, or two cells of one."""
    a, b = used[0], used[-1]
    first, last = row.within.split("; ") if row.within else (a.run.scenario, b.run.scenario)
    cells = {m.run.scenario: cells_of(m) for m in used}
    before, after, printed = _sides(row, cells)
    if not before:
        missing = f"cells of both {first} and {last}" if row.within else "cell (interval and QoS) in common"
        return not_run(f"The runs of {' and '.join(cells)} have no {missing}.")
    rule = rule_of(row.rule, row.what, printed)
    if constants_of(row.figure, used):
        rule = without_constant(rule, printed.before if row.rule == "alike" else None)
    figures = dict.fromkeys((row.figure, *FIGURES))
    sides = {one: ((a, partial(_mean, before, one)), (b, partial(_mean, after, one))) for one in figures}
    verdict = compared(sides, rule, "us")
    verdict.sides, verdict.cells, verdict.published = (first, last), cells_text([*before, *after]), printed
    if row.about and not _applied(row.about.split()[0], a, b):
        _to_control(verdict, row.figure)
    return verdict


def _common(a: str, b: str, cells: Planned) -> list[Key]:
    """Return the cells that two scenarios have: those with published figures, if there are any."""
    both = [key for key in cells[a] if key in cells[b]]
    return [key for key in both if all(published.mean_us(one, [key]) is not None for one in (a, b))] or both


def _mean(keys: Sequence[Key], figure: str, run: MeasuredRuns) -> float:
    """Return a figure of a run, a latency in us, the mean over the cells; NaN where a cell of the run has none.

    "pace" is the time from one message's leaving to the next one's: the interval and the mean lateness.
    """
    metric, statistic = figure.replace("mean", "avg").split()
    return float(np.mean([_value(cells_of(run).get(key), metric, statistic) for key in keys]))


def _value(cell: MeasuredLoop | None, metric: str, statistic: str) -> float:
    if cell is None:
        return math.nan
    if metric == "pace":
        late_us = cell.figure("send_lateness.avg")
        return math.nan if late_us is None else 1000 * cell.interval_ms + late_us
    if metric == "response-R":
        return quantile(cell.response_without_R_us, QUANTILES[statistic])
    if metric == "response":
        return quantile(cell.response_us, QUANTILES[statistic])
    value = cell.figure(f"{metric}.{statistic}")
    return math.nan if value is None else value


def constants_of(figure: str, used: Sequence[MeasuredRuns]) -> list[Fitted]:
    """Return the fitted constants on which a figure ("O mean") of any of these runs depends."""
    found = {one for m in used for one in fitted(m.run.parameters) if figure.split()[0] in one.figures}
    return [one for one in FITTED_CONSTANTS if one in found]


def _robot_share(run: MeasuredRuns) -> Verdict:
    """Judge R over T in a scenario, the mean over its cells."""
    scenario = run.run.scenario
    keys = [key for key in cells_of(run) if published.mean_us(scenario, [key]) is not None]
    robot, total = (published.mean_us(scenario, keys, f"{metric} mean") for metric in "RT")
    if robot is None or total is None:
        return not_run(f"The run of {scenario} has no cell with published figures.")
    printed = robot / total

    def share(one: MeasuredRuns) -> float:
        means = [[cells_of(one)[key].statistic(metric, "avg") or math.nan for key in keys] for metric in "RT"]
        return sum(means[0]) / sum(means[1])

    value = over_runs([share(one) for one in run.runs]) or UNKNOWN
    ends = f" ({value.low:.0%} to {value.high:.0%})" if value.known else ""
    text = f"R is {value.estimate:.0%} of T{ends}; published are {printed:.0%}."
    verdict = stated([value.p_values(printed / NEAR, printed * NEAR)], text)
    verdict.cells = cells_text(keys)
    if verdict.question and constants_of("R", [run]):
        verdict.question = by_construction(verdict.question)
    return verdict


def _applied(about: str, before: MeasuredRuns, after: MeasuredRuns) -> bool:
    """Return whether what the claim is about differed: of priority, what the processes were found with."""
    if about not in _PRIORITISED:
        return True
    first, second = (m.run.treatment(f"{_PRIORITISED[about]} scheduling policy") for m in (before, after))
    if first is None or second is None:
        return bool(after.run.parameters.get("apply_priority"))
    return str(first.get("found")) != str(second.get("found"))


def _to_control(verdict: Verdict, figure: str) -> None:
    """Make the verdict a negative control: what differs between sides that were treated alike is chance."""
    shown = f" They differ by {show_percent(verdict.share.estimate)} in {figure}." if verdict.share else ""
    verdict.withdraw(
        "No priority was applied: both sides were scheduled alike. Whatever differs is no effect of "
        f"priority but chance, a negative control.{shown} ./lab run … --fidelity corrected applies it.",
        NO_CONTRAST,
    )


def add_causes(runs: Mapping[str, Runs], verdicts: Verdicts) -> None:
    """Put beside the verdict on QoS 2 of corrected runs what the same scenario shows in thesis fidelity."""
    answers = {claim.name: by_fidelity for claim, by_fidelity in verdicts}
    if "qos-2" in answers:
        answers["qos-2"]["corrected"].notes += _nodelay(runs.get("thesis", {}), runs.get("corrected", {}))


def _nodelay(thesis: Runs, corrected: Runs) -> list[str]:
    """Return how much of QoS 1 and 2 is Nagle and delayed acknowledgements: needs scenario 8 of both fidelities."""
    off, on = thesis.get("scenario8"), corrected.get("scenario8")
    if off is None or on is None:
        return ["To see what TCP_NODELAY has to do with it, run scenario8 with --fidelity thesis and corrected."]
    nodelay = [m.run.parameters.get("tcp_nodelay") for m in (off, on)]
    if nodelay[0] == nodelay[1] or not off.run.same_machine(on.run):
        return []
    notes = []
    for key in sorted(set(cells_of(off)) & set(cells_of(on))):
        slow, fast = (cells_of(m)[key].statistic("O", "p50") for m in (off, on))
        if key[1] and slow and fast:
            share = f"{1 - fast / slow:.0%} of it was Nagle and delayed acknowledgements, not QoS"
            notes.append(
                f"QoS {key[1]:g} at {key[0]:g} ms: the median of O is {slow / 1000:.1f} ms with TCP_NODELAY off and "
                f"{fast / 1000:.1f} ms with it on{f': {share}' if fast < slow else ''}."
            )
    return notes
