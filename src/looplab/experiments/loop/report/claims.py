"""What the thesis claims, as questions that stored runs answer: reproduced, not reproduced, or undecided."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from looplab.experiments.loop.protocol import FRAMINGS
from looplab.experiments.loop.report import published
from looplab.report.cell import Cell, Key
from looplab.report.page import show_percent
from looplab.report.samples import Measured, Runs
from looplab.report.statistics import FEWEST_REPETITIONS, Comparison, compare, smallest_found
from looplab.report.stored import StoredRun
from looplab.report.verdicts import NO_RUN, NOT_REPRODUCED, REPRODUCED, SIGNIFICANCE, UNDECIDED, Claim, Verdict
from looplab.treatments.judgement import on_off

# A difference below this share does not matter; the thesis itself calls 3 % "little difference".
MATTERS = 0.10
# As many messages a cell as published: no loss among fewer proves little.
PUBLISHED_MESSAGES = 1000
STATISTICS = ("mean", "p50", "p95")


@dataclass
class Comparing(Verdict):
    """A verdict on the O of two sides, as differences by statistic, or on counts of messages (no `effects`)."""

    effects: dict[str, Comparison] = field(default_factory=dict)
    sides: tuple[str, str] = ("before", "after")
    cells: str = ""
    published_share: float | None = None
    run_ids: list[str] = field(default_factory=list)

    @property
    def glance(self) -> str:
        if "mean" not in self.effects:
            return ""
        return f"{show_percent(self.effects['mean'].share.estimate)} (published {show_percent(self.published_share)})"


def claims() -> list[Claim]:
    """Return the thesis's claims in the order of its chapters."""
    return [
        _between("no-arduino-slower", "Without the Arduino, O is higher than with it", ("1", "0"), _higher),
        _between("no-arduino-slower-stress", "The same under CPU stress", ("2", "3"), _higher),
        _between("stress", "CPU stress raises O", ("1", "2"), _higher),
        _between("stress-no-arduino", "CPU stress raises O, without Arduino", ("0", "3"), _higher),
        _between("broker-priority", "Broker priority lowers O under stress", ("2", "4"), _lower),
        _between("broker-priority-no-arduino", "The same without Arduino", ("3", "6"), _lower),
        _between("client-priority", "Prioritising the client as well adds nothing", ("4", "5"), _no_gain),
        _losing(
            "loss-10-ms",
            "At 10 ms the robot's answers are fewer than the requests",
            ("1", "2", "4", "5"),
            10.0,
            every=True,
        ),
        _losing(
            "flood-qos-0", "Under the MQTT flood, QoS 0 loses messages or the connection", ("7", "8"), 20.0, every=False
        ),
        Claim("flood-qos-1-2", "Under the MQTT flood, QoS 1 and 2 lose nothing", _flood_qos_1_2),
        Claim("qos-2", "QoS 2 takes longer than QoS 1", _qos_2),
    ]


# From a comparison to an outcome and its reason.
Rule = Callable[[Comparison], tuple[str, str]]


def _between(name: str, title: str, numbers: tuple[str, str], rule: Rule) -> Claim:
    """Return a claim that compares the O of two scenarios, given by their numbers."""
    before, after = (f"scenario{number}" for number in numbers)

    def judge(runs: Runs, rng: np.random.Generator) -> Comparing:
        missing = [name for name in (before, after) if name not in runs]
        if missing:
            return _no_run(missing)
        a, b = runs[before], runs[after]
        keys = _common_keys(a, b)
        verdict = _compared([(a.cells[k], b.cells[k]) for k in keys], rng, rule)
        verdict.cells, verdict.sides = _said(keys), (before, after)
        if not keys:
            verdict.reason = "The two runs have no cell (interval and QoS) in common."
        intervals = tuple(interval for interval, _ in keys)
        verdict.published_share = _share(
            published.mean_us(before, intervals, 0), published.mean_us(after, intervals, 0)
        )
        return _guarded(verdict, [a, b])

    return Claim(name, title, judge)


def _qos_2(runs: Runs, rng: np.random.Generator) -> Comparing:
    if "scenario8" not in runs:
        return _no_run(["scenario8"])
    a = runs["scenario8"]
    intervals = sorted({interval for interval, _ in a.cells if (interval, 1) in a.cells and (interval, 2) in a.cells})
    if not intervals:
        return Comparing(NO_RUN, "The run of scenario8 has no cells of both QoS 1 and QoS 2.", run_ids=[a.run.run_id])
    verdict = _compared([(a.cells[i, 1], a.cells[i, 2]) for i in intervals], rng, _higher)
    verdict.cells = _said([(i, 2) for i in intervals]).replace("QoS 2", "QoS 1 and 2")
    verdict.sides = ("QoS 1", "QoS 2")
    verdict.published_share = _share(*(published.mean_us("scenario8", intervals, qos) for qos in (1, 2)))
    return _guarded(verdict, [a])


def _share(first: float | None, second: float | None) -> float | None:
    return second / first - 1 if first and second else None


def _no_run(missing: Sequence[str]) -> Comparing:
    return Comparing(NO_RUN, f"There is no usable run: ./lab run {' '.join(missing)}")


def _losing(name: str, title: str, numbers: Sequence[str], interval_ms: float, *, every: bool) -> Claim:
    """Return a claim that messages of QoS 0 are lost: in the cells of all scenarios, or (if not `every`) in any."""
    *first, last = numbers

    def judge(runs: Runs, _rng: np.random.Generator) -> Comparing:
        key = (interval_ms, 0)
        held = [m for number in numbers if (m := runs.get(f"scenario{number}")) and key in m.cells]
        if not held:
            named = f"{', '.join(first)} or {last}"
            return Comparing(NO_RUN, f"No run of scenario {named} has a cell at {interval_ms:g} ms and QoS 0.")
        verdict = _losses([(m.run.scenario, m.cells[key]) for m in held], every=every)
        verdict.cells = _said([key])
        verdict.beside += _merged(held) if every else []
        return _guarded(verdict, held)

    return Claim(name, title, judge)


def _flood_qos_1_2(runs: Runs, _rng: np.random.Generator) -> Comparing:
    measured = runs.get("scenario8")
    cells = [cell for (_, qos), cell in measured.cells.items() if qos > 0] if measured else []
    if measured is None or not cells:
        return Comparing(NO_RUN, "No run of scenario 8 has cells of QoS 1 or 2.")
    lost = sum(cell.lost for cell in cells)
    said = ", ".join(f"QoS {cell.qos}: {cell.lost} of {cell.sent} lost" for cell in cells)
    if lost:
        outcome = NOT_REPRODUCED
    else:
        outcome = REPRODUCED if min(cell.sent for cell in cells) >= PUBLISHED_MESSAGES else UNDECIDED
    verdict = Comparing(
        outcome, said + "." + _few_messages(outcome, cells), cells=_said([(c.interval_ms, c.qos) for c in cells])
    )
    if lost:
        verdict.beside += ["QoS ends at the bridge: what is lost behind it, no QoS brings back.", *_merged([measured])]
    return _guarded(verdict, [measured])


def _merged(held: Sequence[Measured]) -> list[str]:
    """Return what framing did; the bridge counts since its start, which may be several runs ago."""
    return [
        f"{m.run.scenario}: framing {m.run.parameters.get('robot_framing')}; since its start, the bridge merged "
        f"{count} requests into another's answer."
        for m in held
        if (count := _bridge_count(m.run, "merged")) is not None
    ]


def _losses(cells: Sequence[tuple[str, Cell]], *, every: bool) -> Comparing:
    """Judge whether messages were lost: in every cell, or (if not `every`) in any."""
    said, gone = [], []
    for name, cell in cells:
        lost, broken = cell.lost, int(cell.document.get("disconnects", 0))
        gone.append(lost + broken > 0)
        breaks = f", connection lost {broken} times" if broken else ""
        said.append(f"{name}: {lost} of {cell.sent} lost{breaks}")
    if all(gone) if every else any(gone):
        outcome = REPRODUCED
    elif not any(gone) and min(cell.sent for _, cell in cells) >= PUBLISHED_MESSAGES:
        outcome = NOT_REPRODUCED
    else:
        outcome = UNDECIDED
    return Comparing(outcome, "; ".join(said) + "." + _few_messages(outcome, [cell for _, cell in cells]))


def _few_messages(outcome: str, cells: Sequence[Cell]) -> str:
    fewest = min(cell.sent for cell in cells)
    if outcome != UNDECIDED or fewest >= PUBLISHED_MESSAGES:
        return ""
    return (
        f" {fewest} messages in a cell are fewer than the {PUBLISHED_MESSAGES} of the thesis: too few to rule it out."
    )


def _compared(pairs: Sequence[tuple[Cell, Cell]], rng: np.random.Generator, rule: Rule) -> Comparing:
    """Judge by the mean, as the thesis does; p50 and p95 are shown beside it."""
    before, after = ([pair[side].by_repetition("O") for pair in pairs] for side in (0, 1))
    compared = {name: compare([a[name] for a in before], [b[name] for b in after], rng) for name in STATISTICS}
    effects = {name: comparison for name, comparison in compared.items() if comparison is not None}
    if "mean" not in effects:
        fewest = min((cell.repetitions for pair in pairs for cell in pair), default=0)
        return Comparing(
            UNDECIDED,
            f"{fewest} answered repetition(s) in a cell; {FEWEST_REPETITIONS} are the fewest that show a spread, "
            "10 are as published.",
        )
    outcome, reason = rule(effects["mean"])
    if outcome == UNDECIDED:
        found = smallest_found(effects["mean"].repetitions, len(pairs))
        reason += (
            f" With {effects['mean'].repetitions} repetitions a side, a shift below about {found:.1f} standard "
            "deviations of a repetition is likely to be missed."
        )
    return Comparing(outcome, reason, effects=effects)


def _directed(direction: int, c: Comparison) -> tuple[str, str]:
    word = {1: "higher", -1: "lower"}
    low, high = sorted((direction * c.share.low, direction * c.share.high))
    decided = c.p_value < SIGNIFICANCE and (low > 0 or high < 0)
    if decided and low > 0:
        small = " It is there, but may be too small to matter (below 10 %)." if low < MATTERS else ""
        return REPRODUCED, f"O is {word[direction]}, as published.{small}"
    if decided:
        return NOT_REPRODUCED, f"O is {word[-direction]}: the other way round."
    if high < MATTERS:
        return NOT_REPRODUCED, f"If O is {word[direction]} at all, then by less than 10 %."
    return UNDECIDED, "The interval holds both no difference and one that matters."


_higher: Rule = partial(_directed, +1)
_lower: Rule = partial(_directed, -1)


def _no_gain(c: Comparison) -> tuple[str, str]:
    share = c.share
    if share.low > -MATTERS:
        return REPRODUCED, "O is not lowered by 10 % or more."
    if share.high < -MATTERS and c.p_value < SIGNIFICANCE:
        return NOT_REPRODUCED, "O is lowered by more than 10 %."
    return UNDECIDED, "The interval holds both no gain and one of 10 % or more."


def _common_keys(a: Measured, b: Measured) -> list[Key]:
    """Return the cells that both have; only those with published figures, if there are any."""
    both = [key for key in a.cells if key in b.cells]
    sides = (a.run.scenario, b.run.scenario)
    named = [key for key in both if all(published.mean_us(name, key[:1], int(key[1])) is not None for name in sides)]
    return named or both


def _guarded(verdict: Comparing, held: Sequence[Measured]) -> Comparing:
    """Give no verdict from runs that are invalid, of different machines or of different factors."""
    verdict.run_ids = [m.run.run_id for m in held]
    troubles = [f"{m.run.run_id} is INVALID ({m.run.invalid_because})" for m in held if not m.run.valid]
    if len({m.run.machine for m in held}) > 1:
        troubles.append("the runs are of different machines: " + ", ".join(sorted({m.run.machine_text for m in held})))
    for factor in ("tcp_nodelay", "robot_framing", "apply_priority"):
        values = {m.run.scenario: on_off(m.run.parameters.get(factor)) for m in held}
        if len(set(values.values())) > 1:
            listed = ", ".join(f"{name}: {value}" for name, value in values.items())
            troubles.append(f"the runs differ in {factor.upper()} too ({listed})")
    if troubles:
        verdict.outcome = UNDECIDED
        verdict.reason = f"Cannot be judged: {'; '.join(troubles)}."
    verdict.beside = [*_overrides(held), *verdict.beside]
    return verdict


def _overrides(held: Sequence[Measured]) -> list[str]:
    """Name the factors that were set otherwise than their fidelity has them."""
    notes = []
    for m in held:
        corrected = m.run.fidelity == "corrected"
        usual = {"tcp_nodelay": corrected, "robot_framing": FRAMINGS.get(m.run.fidelity), "apply_priority": corrected}
        found = m.run.parameters
        apart = [
            f"{name.upper()}={on_off(found[name])}" for name, value in usual.items() if found.get(name, value) != value
        ]
        if apart:
            notes.append(f"{m.run.scenario} was run with {', '.join(apart)}, which is not fidelity {m.run.fidelity}.")
    return notes


def _bridge_count(run: StoredRun, name: str) -> int | None:
    bridge = run.document.get("bridge")
    counts = bridge.get("counts") if isinstance(bridge, dict) else None
    value = counts.get(name) if isinstance(counts, dict) else None
    return value if isinstance(value, int) else None


def _said(keys: Sequence[Key]) -> str:
    qos = sorted({f"{q:g}" for _, q in keys})
    intervals = sorted({i for i, _ in keys}, reverse=True)
    if not keys:
        return "none"
    return f"{', '.join(f'{i:g}' for i in intervals)} ms, QoS {', '.join(qos)}"
