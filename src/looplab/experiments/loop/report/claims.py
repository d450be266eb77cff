"""What the thesis claims, as questions that stored runs answer: reproduced, not reproduced, or undecided."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from looplab.experiments.loop.protocol import FRAMINGS
from looplab.experiments.loop.report import published
from looplab.experiments.loop.report.cells import Cell
from looplab.report.statistics import FEWEST_REPETITIONS, Comparison, compare, smallest_found
from looplab.report.stored import StoredRun

REPRODUCED, NOT_REPRODUCED, UNDECIDED, NO_RUN = "reproduced", "not reproduced", "undecided", "not run"
# A difference below this share is none that matters; the thesis itself calls 3 % "little difference".
MATTERS = 0.10
SIGNIFICANCE = 0.05
# As many messages a cell as published: none lost among fewer says little.
PUBLISHED_MESSAGES = 1000
STATISTICS = ("mean", "p50", "p95")

Key = tuple[float, int]


@dataclass(frozen=True)
class Measured:
    """A run and its analysed cells by (interval_ms, qos)."""

    run: StoredRun
    cells: Mapping[Key, Cell]


# The measured runs of one fidelity, by scenario.
Runs = Mapping[str, Measured]


@dataclass
class Verdict:
    """One claim at one fidelity: the answer, why, and what stands beside it."""

    outcome: str
    reason: str
    effects: dict[str, Comparison] = field(default_factory=dict)
    sides: tuple[str, str] = ("before", "after")
    cells: str = ""
    published_share: float | None = None
    run_ids: list[str] = field(default_factory=list)
    beside: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Claim:
    """`judge` answers it from the runs of one fidelity."""

    name: str
    title: str
    judge: Callable[[Runs, np.random.Generator], Verdict]


def claims() -> list[Claim]:
    """The thesis's claims, in the order of its chapters."""
    return [
        _shift("no-arduino-slower", "Without the Arduino, O is higher than with it", "scenario1", "scenario0", +1),
        _shift("no-arduino-slower-stress", "The same under CPU stress", "scenario2", "scenario3", +1),
        _shift("stress", "CPU stress raises O", "scenario1", "scenario2", +1),
        _shift("stress-no-arduino", "CPU stress raises O, without Arduino", "scenario0", "scenario3", +1),
        _shift("broker-priority", "Broker priority lowers O under stress", "scenario2", "scenario4", -1),
        _shift("broker-priority-no-arduino", "The same without Arduino", "scenario3", "scenario6", -1),
        Claim("client-priority", "Prioritising the client as well adds nothing", _client_priority),
        Claim("loss-10-ms", "At 10 ms the robot's answers are fewer than the requests", _loss_at_10_ms),
        Claim("flood-qos-0", "Under the MQTT flood, QoS 0 loses messages or the connection", _flood_qos_0),
        Claim("flood-qos-1-2", "Under the MQTT flood, QoS 1 and 2 lose nothing", _flood_qos_1_2),
        Claim("qos-2", "QoS 2 takes longer than QoS 1", _qos_2),
    ]


def _shift(name: str, title: str, before: str, after: str, direction: int) -> Claim:
    def judge(runs: Runs, rng: np.random.Generator) -> Verdict:
        missing = _missing(runs, before, after)
        if missing:
            return missing
        a, b = runs[before], runs[after]
        keys = _common_keys(a, b)
        verdict = _compared([(a.cells[k], b.cells[k]) for k in keys], rng, lambda c: _directed(c, direction))
        return _finish(verdict, a, b, keys)

    return Claim(name, title, judge)


def _client_priority(runs: Runs, rng: np.random.Generator) -> Verdict:
    missing = _missing(runs, "scenario4", "scenario5")
    if missing:
        return missing
    a, b = runs["scenario4"], runs["scenario5"]
    keys = _common_keys(a, b)
    return _finish(_compared([(a.cells[k], b.cells[k]) for k in keys], rng, _no_gain), a, b, keys)


def _qos_2(runs: Runs, rng: np.random.Generator) -> Verdict:
    missing = _missing(runs, "scenario8")
    if missing:
        return missing
    a = runs["scenario8"]
    intervals = sorted({interval for interval, _ in a.cells if (interval, 1) in a.cells and (interval, 2) in a.cells})
    if not intervals:
        return Verdict(NO_RUN, "The run of scenario8 has no cells of both QoS 1 and QoS 2.", run_ids=[a.run.run_id])
    pairs = [(a.cells[i, 1], a.cells[i, 2]) for i in intervals]
    verdict = _compared(pairs, rng, lambda c: _directed(c, +1))
    verdict.cells = _said([(i, 2) for i in intervals]).replace("QoS 2", "QoS 1 and 2")
    verdict.sides = ("QoS 1", "QoS 2")
    one, two = published.mean_us("scenario8", tuple(intervals), 1), published.mean_us("scenario8", tuple(intervals), 2)
    verdict.published_share = two / one - 1 if one and two else None
    return _guarded(verdict, [a])


def _loss_at_10_ms(runs: Runs, _rng: np.random.Generator) -> Verdict:
    wanted = ("scenario1", "scenario2", "scenario4", "scenario5")
    held = [runs[name] for name in wanted if name in runs and (10.0, 0) in runs[name].cells]
    if not held:
        return Verdict(NO_RUN, "No run of scenario 1, 2, 4 or 5 has a cell at 10 ms.")
    cells = [m.cells[10.0, 0] for m in held]
    verdict = _losses(list(zip([m.run.scenario for m in held], cells, strict=True)), every=True)
    verdict.cells = "10 ms, QoS 0"
    verdict.beside += _merged(held)
    return _guarded(verdict, held)


def _flood_qos_0(runs: Runs, _rng: np.random.Generator) -> Verdict:
    held = [m for name in ("scenario7", "scenario8") if (m := runs.get(name)) and (20.0, 0) in m.cells]
    if not held:
        return Verdict(NO_RUN, "No run of scenario 7 or 8 has a cell at 20 ms and QoS 0.")
    verdict = _losses([(m.run.scenario, m.cells[20.0, 0]) for m in held], every=False)
    verdict.cells = "20 ms, QoS 0"
    return _guarded(verdict, held)


def _flood_qos_1_2(runs: Runs, _rng: np.random.Generator) -> Verdict:
    measured = runs.get("scenario8")
    cells = [cell for (_, qos), cell in measured.cells.items() if qos > 0] if measured else []
    if measured is None or not cells:
        return Verdict(NO_RUN, "No run of scenario 8 has cells of QoS 1 or 2.")
    lost = sum(int(cell.counts["lost"]) for cell in cells)
    said = ", ".join(f"QoS {cell.qos}: {cell.counts['lost']} of {cell.sent} lost" for cell in cells)
    if lost:
        outcome = NOT_REPRODUCED
    else:
        outcome = REPRODUCED if min(cell.sent for cell in cells) >= PUBLISHED_MESSAGES else UNDECIDED
    verdict = Verdict(
        outcome, said + "." + _few_messages(outcome, cells), cells=_said([(c.interval_ms, c.qos) for c in cells])
    )
    if lost:
        verdict.beside += ["QoS ends at the bridge: what is lost behind it, no QoS brings back.", *_merged([measured])]
    return _guarded(verdict, [measured])


def _merged(held: Sequence[Measured]) -> list[str]:
    """What framing did; the bridge counts since it was started, which may be several runs ago."""
    notes = []
    for m in held:
        count = _bridge_count(m.run, "merged")
        if count is not None:
            notes.append(
                f"{m.run.scenario}: framing {m.run.document['parameters'].get('robot_framing')}; since it was started, "
                f"the bridge had merged {count} requests into another's answer."
            )
    return notes


def _losses(cells: Sequence[tuple[str, Cell]], *, every: bool) -> Verdict:
    """Whether messages were lost: in every cell, or (where `every` is false) in any."""
    said, gone = [], []
    for name, cell in cells:
        lost, broken = int(cell.counts["lost"]), int(cell.counts.get("disconnects", 0))
        gone.append(lost + broken > 0)
        breaks = f", connection lost {broken} times" if broken else ""
        said.append(f"{name}: {lost} of {cell.sent} lost{breaks}")
    if all(gone) if every else any(gone):
        outcome = REPRODUCED
    elif not any(gone) and min(cell.sent for _, cell in cells) >= PUBLISHED_MESSAGES:
        outcome = NOT_REPRODUCED
    else:
        outcome = UNDECIDED
    return Verdict(outcome, "; ".join(said) + "." + _few_messages(outcome, [cell for _, cell in cells]))


def _few_messages(outcome: str, cells: Sequence[Cell]) -> str:
    fewest = min(cell.sent for cell in cells)
    if outcome != UNDECIDED or fewest >= PUBLISHED_MESSAGES:
        return ""
    return (
        f" {fewest} messages in a cell are fewer than the {PUBLISHED_MESSAGES} of the thesis: too few to rule it out."
    )


def _compared(
    pairs: Sequence[tuple[Cell, Cell]], rng: np.random.Generator, rule: Callable[[Comparison], tuple[str, str]]
) -> Verdict:
    """The verdict stands on the mean, which the thesis judges by; p50 and p95 are shown beside it."""
    effects = {}
    for statistic in STATISTICS:
        before, after = ([pair[side].by_repetition["O"][statistic] for pair in pairs] for side in (0, 1))
        comparison = compare(before, after, rng)
        if comparison is not None:
            effects[statistic] = comparison
    if "mean" not in effects:
        fewest = min((cell.repetitions for pair in pairs for cell in pair), default=0)
        return Verdict(
            UNDECIDED,
            f"{fewest} answered repetition(s) in a cell; {FEWEST_REPETITIONS} are the fewest that tell a spread, "
            "10 are as published.",
        )
    outcome, reason = rule(effects["mean"])
    if outcome == UNDECIDED:
        found = smallest_found(effects["mean"].repetitions, len(pairs))
        reason += (
            f" With {effects['mean'].repetitions} repetitions a side, a shift below about {found:.1f} standard "
            "deviations of a repetition is likely to be missed."
        )
    return Verdict(outcome, reason, effects)


def _directed(c: Comparison, direction: int) -> tuple[str, str]:
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


def _no_gain(c: Comparison) -> tuple[str, str]:
    share = c.share
    if share.low > -MATTERS:
        return REPRODUCED, "O is not lowered by 10 % or more."
    if share.high < -MATTERS and c.p_value < SIGNIFICANCE:
        return NOT_REPRODUCED, "O is lowered by more than 10 %."
    return UNDECIDED, "The interval holds both no gain and one of 10 % or more."


def _missing(runs: Runs, *names: str) -> Verdict | None:
    missing = [name for name in names if name not in runs]
    if not missing:
        return None
    return Verdict(NO_RUN, f"There is no usable run: ./lab run {' '.join(missing)}")


def _common_keys(a: Measured, b: Measured) -> list[Key]:
    """Cells that both have; of these the ones the thesis gives figures for, where there are any."""
    both = [key for key in a.cells if key in b.cells]
    named = [key for key in both if all(_is_published(m.run.scenario, key) for m in (a, b))]
    return named or both


def _is_published(scenario: str, key: Key) -> bool:
    row = published.row_of(scenario, key[0], key[1])
    return row is not None and row.figure("O", "avg") is not None


def _finish(verdict: Verdict, a: Measured, b: Measured, keys: list[Key]) -> Verdict:
    verdict.cells = _said(keys)
    verdict.sides = (a.run.scenario, b.run.scenario)
    if not keys:
        verdict.reason = "The two runs have no cell (interval and QoS) in common."
    intervals = tuple(interval for interval, _ in keys)
    first, second = published.mean_us(a.run.scenario, intervals, 0), published.mean_us(b.run.scenario, intervals, 0)
    verdict.published_share = second / first - 1 if first and second else None
    return _guarded(verdict, [a, b])


def _guarded(verdict: Verdict, held: Sequence[Measured]) -> Verdict:
    """No verdict from runs that are invalid, of different machines or of different factors."""
    verdict.run_ids = [m.run.run_id for m in held]
    troubles = [
        f"{m.run.run_id} is INVALID ({'; '.join(map(str, m.run.document['invalid_because']))})"
        for m in held
        if not m.run.valid
    ]
    if len({m.run.machine for m in held}) > 1:
        troubles.append("the runs are of different machines: " + ", ".join(sorted({_machine(m.run) for m in held})))
    for factor in ("tcp_nodelay", "robot_framing", "apply_priority"):
        values = {m.run.scenario: _shown(m.run.document["parameters"].get(factor)) for m in held}
        if len(set(values.values())) > 1:
            listed = ", ".join(f"{name}: {value}" for name, value in values.items())
            troubles.append(f"the runs differ in {factor.upper()} too ({listed})")
    if troubles:
        verdict.outcome = UNDECIDED
        verdict.reason = f"Cannot be judged: {'; '.join(troubles)}."
    verdict.beside = [*_overrides(held), *verdict.beside]
    return verdict


def _overrides(held: Sequence[Measured]) -> list[str]:
    """Factors that were set apart from what their fidelity says."""
    notes = []
    for m in held:
        corrected = m.run.fidelity == "corrected"
        usual = {"tcp_nodelay": corrected, "robot_framing": FRAMINGS.get(m.run.fidelity), "apply_priority": corrected}
        found = m.run.document["parameters"]
        apart = [
            f"{name.upper()}={_shown(found[name])}" for name, value in usual.items() if found.get(name, value) != value
        ]
        if apart:
            notes.append(f"{m.run.scenario} was run with {', '.join(apart)}, which is not fidelity {m.run.fidelity}.")
    return notes


def treatment(run: StoredRun, what: str) -> dict[str, Any] | None:
    """One treatment of a run by its name."""
    for entry in run.document["treatments"]:
        if isinstance(entry, dict) and entry.get("what") == what:
            return entry
    return None


def _bridge_count(run: StoredRun, name: str) -> int | None:
    bridge = run.document.get("bridge")
    counts = bridge.get("counts") if isinstance(bridge, dict) else None
    value = counts.get(name) if isinstance(counts, dict) else None
    return value if isinstance(value, int) else None


def _machine(run: StoredRun) -> str:
    cpu, cores, kernel = run.machine
    return f"{cpu}, {cores} cores, kernel {kernel}"


def _said(keys: Sequence[Key]) -> str:
    qos = sorted({q for _, q in keys})
    intervals = sorted({i for i, _ in keys}, reverse=True)
    if not keys:
        return "none"
    return f"{', '.join(f'{i:g}' for i in intervals)} ms, QoS {', '.join(map(str, qos))}"


def _shown(value: object) -> str:
    return {True: "on", False: "off"}.get(value, str(value)) if isinstance(value, bool) else str(value)
