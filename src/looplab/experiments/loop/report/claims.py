"""What the thesis claims, as rows that stored runs answer; beside QoS 2, how much of it was Nagle's algorithm."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from looplab.experiments.loop.report import cells_of, lost_messages, published
from looplab.experiments.loop.report.comparison import (
    LoopVerdict,
    Printed,
    cells_text,
    compare_sides,
    constants_of,
    guarded,
)
from looplab.report import rounds
from looplab.report.cell import Key
from looplab.report.page import show_percent
from looplab.report.printed import table
from looplab.report.rules import (
    MATTERS,
    NEAR,
    Rule,
    alike,
    by_construction,
    directed,
    no_gain,
    stated,
    without_constant,
)
from looplab.report.samples import MeasuredRuns, Runs
from looplab.report.statistics import UNKNOWN, over_runs
from looplab.report.study_file import Study
from looplab.report.verdicts import NO_CONTRAST, NOT_RUN, Claim, Effect, Planned, Verdicts

# Whose scheduling a claim on priority is about.
_PRIORITISED = {"priority_broker": "broker", "priority_controller": "controller"}


@dataclass(frozen=True)
class ClaimRow:
    """A line of claims.csv: the `scenarios` of a study, or cells `within` its only one, compared by `figure`.

    `what` names the figure in a sentence. `about` begins the names of the parameters that may differ between two
    scenarios. `within` is the kind of cells and which are before and after: "QoS 1 2", "ms 100 20".
    """

    name: str
    title: str
    scenarios: str
    figure: str
    what: str
    rule: str
    about: str = ""
    within: str = ""
    family: str = ""
    note: str = ""

    def decides(self, printed: Printed) -> Rule:
        """Return what decides, by the figures printed."""
        if self.rule == "alike":
            return alike(self.what, MATTERS)
        if self.rule == "not lower":
            return no_gain(self.what)
        way, claimed = +1 if self.rule == "higher" else -1, printed.share is not None
        return directed(self.what, way, printed.share, printed.before, claimed=claimed)

    @property
    def sides(self) -> tuple[str, str] | None:
        """The names of the cells that are compared; None for scenarios."""
        if not self.within:
            return None
        kind, *both = self.within.split()
        before, after = (f"{kind} {one}" if kind == "QoS" else f"{one} {kind}" for one in both)
        return before, after

    def cells(self, keys: Collection[Key]) -> tuple[list[Key], list[Key]]:
        """Return the cells before and after of one scenario, [] without both."""
        kind, before, after = self.within.split()
        if kind == "QoS":
            intervals = [ms for ms, qos in sorted(keys) if qos == int(after) and (ms, int(before)) in keys]
            return [(ms, int(before)) for ms in intervals], [(ms, int(after)) for ms in intervals]
        first, second = (float(before), 0), (float(after), 0)
        return ([first], [second]) if {first, second} <= set(keys) else ([], [])


def claims() -> list[Claim]:
    """Return the thesis's claims in the order of its chapters."""
    return [claim(ClaimRow(**line)) for line in table(__file__)]


def claim(row: ClaimRow) -> Claim:
    """Return the claim of a row."""
    lost = partial(lost_messages.judge, row.name, row.scenarios.split())
    judge = lost if row.rule == "lost" else partial(_judge, row)
    return Claim(row.name, row.title, judge, row.family, partial(_effect, row))


def _effect(row: ClaimRow, planned: Planned) -> Effect | None:
    """Return what a row compares in the planned cells; None without them, and of a figure whose spread is unknown."""
    scenarios = row.scenarios.split()
    first, last = scenarios[0], scenarios[-1]
    if row.figure != "O mean" or not {first, last} <= planned.keys():
        return None
    before, after = row.cells(planned[first]) if row.within else (_common(first, last, planned),) * 2
    printed = _printed(row, (first, before), (last, after))
    direction = {"higher": 1, "lower": -1}.get(row.rule, 0)
    effect = Effect((first, last), row.decides(printed), printed.share, printed.before, direction, row.family)
    return effect if before else None


def _printed(row: ClaimRow, *sides: tuple[str, Sequence[Key]]) -> Printed:
    """Return the published figures of two sides, each a scenario and its cells."""
    # As published: no figure of the response is.
    figure = "O mean" if row.figure.startswith("response") else row.figure
    before, after = (published.mean_us(*side, figure) for side in sides)
    return Printed(before, after, figure)


def _judge(row: ClaimRow, runs: Runs) -> LoopVerdict:
    scenarios = row.scenarios.split()
    if missing := [scenario for scenario in scenarios if scenario not in runs]:
        return LoopVerdict(reason=f"There is no usable run: ./lab run {' '.join(missing)}", because=NOT_RUN)
    study = rounds.study_of([runs[scenario] for scenario in scenarios])
    sides = [(runs[scenario], rounds.within(study, runs[scenario])) for scenario in scenarios]
    judge = _robot_share if row.rule == "share" else _compared
    verdict = judge(row, [used for _, used in sides], study)
    verdict.notes += [row.note] if row.note else []
    return guarded(verdict, row.name, study, sides, row.about.split() or None)


def _compared(row: ClaimRow, used: Sequence[MeasuredRuns], study: Study | None) -> LoopVerdict:
    """Compare two scenarios, or two cells of one."""
    a, b = used[0], used[-1]
    names = (a.run.scenario, b.run.scenario)
    cells = {m.run.scenario: cells_of(m) for m in used}
    before, after = row.cells(cells_of(a)) if row.within else (_common(*names, cells),) * 2
    if not before:
        missing = f"cells of both {' and '.join(row.sides)}" if row.sides else "cell (interval and QoS) in common"
        return LoopVerdict(reason=f"The runs of {' and '.join(cells)} have no {missing}.", because=NOT_RUN)
    printed = _printed(row, (names[0], before), (names[1], after))
    verdict = LoopVerdict(
        sides=row.sides or names,
        cells=cells_text([*before, *after]),
        published=printed,
        published_share=printed.share,
        judged=row.figure,
    )
    rule = row.decides(printed)
    if constants_of(row.figure, used):
        rule = without_constant(rule, printed.before if row.rule == "alike" else None)
    compare_sides(verdict, ((a, before), (b, after)), rule, study)
    if row.about and not _applied(row.about.split()[0], a, b):
        _to_control(verdict)
    return verdict


def _common(a: str, b: str, cells: Planned) -> list[Key]:
    """Return the cells that two scenarios have: those with published figures, if there are any."""
    both = [key for key in cells[a] if key in cells[b]]
    return [key for key in both if all(published.mean_us(one, [key]) is not None for one in (a, b))] or both


def _robot_share(_row: ClaimRow, used: Sequence[MeasuredRuns], study: Study | None) -> LoopVerdict:
    """Judge R over T in a scenario, the mean over its cells."""
    (a,) = used
    scenario = a.run.scenario
    keys = [key for key in cells_of(a) if published.mean_us(scenario, [key]) is not None]
    robot, total = (published.mean_us(scenario, keys, f"{metric} mean") for metric in "RT")
    if robot is None or total is None:
        return LoopVerdict(reason=f"The run of {scenario} has no cell with published figures.", because=NOT_RUN)
    printed = robot / total

    def share(one: MeasuredRuns) -> float:
        means = [[cells_of(one)[key].statistic(metric, "avg") or math.nan for key in keys] for metric in "RT"]
        return sum(means[0]) / sum(means[1])

    value = over_runs([share(one) for one in a.runs]) or UNKNOWN
    ends = f" ({value.low:.0%} to {value.high:.0%})" if value.known else ""
    text = f"R is {value.estimate:.0%} of T{ends}; published are {printed:.0%}."
    verdict = LoopVerdict(reason=text, cells=cells_text(keys), judged="R over T")
    if not rounds.withheld(verdict, len(a.runs), study):
        question = stated([value.p_values(printed / NEAR, printed * NEAR)], text).question
        verdict.question = by_construction(question) if question and constants_of("R", used) else question
    return verdict


def _applied(about: str, before: MeasuredRuns, after: MeasuredRuns) -> bool:
    """Return whether what the claim is about differed: of priority, what the processes were found with."""
    if about not in _PRIORITISED:
        return True
    first, second = (m.run.treatment(f"{_PRIORITISED[about]} scheduling policy") for m in (before, after))
    if first is None or second is None:
        return bool(after.run.parameters.get("apply_priority"))
    return str(first.get("found")) != str(second.get("found"))


def _to_control(verdict: LoopVerdict) -> None:
    """Make the verdict a negative control: what differs between sides that were treated alike is chance."""
    effect = verdict.effects.get(verdict.judged)
    shown = f" They differ by {show_percent(effect.share.estimate)} in {verdict.judged}." if effect else ""
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
