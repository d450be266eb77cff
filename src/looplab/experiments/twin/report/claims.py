"""What the paper found, as rows that stored runs answer."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import fmean

from looplab.experiments.twin import LIMITS, PROTOTYPE, WRITE_MODES
from looplab.experiments.twin.parameters import USUAL_MODE
from looplab.experiments.twin.report import MeasuredTwin, cells_of, published
from looplab.experiments.twin.report.brokers import alike, more_brokers, varies
from looplab.report.rules import Answer, kept, mostly, stated
from looplab.report.samples import MeasuredRuns
from looplab.report.statistics import FEWEST_RUNS, UNKNOWN, Interval, changed, over_runs
from looplab.report.verdicts import Line, Verdict, not_run, units

# "About 15 a second": within this factor.
NEAR = 1.25
# A rate within this share of that at QoS 0 is a low impact: the paper gives the words and no figure.
LOW_IMPACT = 0.1
# Limits of a search that found none: `limited_by` of looplab.experiments.twin.search.
OPEN = ("unknown", "tried")


def answers() -> dict[str, Answer]:
    """Return what answers each finding."""
    return {
        "fifteen": _fifteen,
        "no-queue-above-67": _no_queue,
        "broker-is-the-limit": _broker_limits,
        "more-brokers": more_brokers,
        "totals-alike": alike,
        "qos-low-impact": _qos,
        "persistence-low-impact": _persistence,
        "distributed-varies": varies,
        "limit": _limit,
    }


def by_mode(run: MeasuredRuns) -> dict[str, list[MeasuredTwin]]:
    """Return the cells of one broker by write mode, that of the run's fidelity first."""
    modes: dict[str, list[MeasuredTwin]] = {}
    for cell in cells_of(run):
        if cell.brokers == 1:
            modes.setdefault(cell.write_mode, []).append(cell)
    order = [USUAL_MODE.get(run.run.fidelity, PROTOTYPE), *WRITE_MODES]
    return {mode: modes[mode] for mode in sorted(modes, key=order.index)}


def usual(run: MeasuredRuns) -> list[list[MeasuredTwin]]:
    """Return the cells of one broker in the write mode of the run's fidelity, by run."""
    return [next(iter(by_mode(one).values()), []) for one in run.runs]


def full_rates(runs: Sequence[Sequence[MeasuredTwin]]) -> list[float]:
    """Return the rates out of the cells with a queue, as they count (looplab.report.verdicts.units)."""
    return units([cell.rate_out for cell in cells if cell.queues and cell.rate_out] for cells in runs)


def _rates(run: MeasuredRuns) -> Iterator[tuple[str, Interval, bool]]:
    """Yield each write mode with its rate out, and whether it is its limit: that of the cells with a queue, by run.

    Without a queue the highest rate is a lower bound. A mode that stored nothing is left out.
    """
    by_run = [by_mode(one) for one in run.runs]
    for mode in by_mode(run):
        runs = [modes.get(mode, []) for modes in by_run]
        seen = [[cell.rate_out for cell in cells if cell.rate_out] for cells in runs]
        if rate := over_runs(full_rates(runs)):
            yield mode, rate, True
        elif rate := over_runs([max(rates) for rates in seen if rates]):
            yield mode, rate, False


def _rate_lines(run: MeasuredRuns) -> list[Line]:
    limit = published()["rate-limit", 1, ""]
    return [
        Line(
            WRITE_MODES[mode].about + ("" if full else ", no queue yet: at least"),
            rate,
            f"at most {limit:g}" if mode == PROTOTYPE else "",
            "/s",
        )
        for mode, rate, full in _rates(run)
    ]


def _fifteen(run: MeasuredRuns) -> Verdict:
    rates = list(_rates(run))
    if not rates:
        return not_run("The run has no valid cell of one broker.")
    mode, rate, full = rates[0]
    limit, lines = published()["rate-limit", 1, ""], _rate_lines(run)
    reason = f"{rate.estimate:.1f} messages a second leave ({mode}); published are {limit:g} at most."
    if not full:
        # What came in may be less than what the broker passes on: it can refute alone.
        return stated([(1.0, rate.p_values(0, limit * NEAR)[1])], f"{reason} No cell has a queue.", lines)
    return stated([rate.p_values(limit / NEAR, limit * NEAR)], reason, lines)


def _no_queue(run: MeasuredRuns) -> Verdict:
    at = published()["queue-below", 1, ""]
    cells = [cell for cells in usual(run) for cell in cells if cell.interval_ms != at]
    lines = [
        Line(
            f"{cell}: longest queue",
            Interval(cell.queue_max or 0),
            "a queue" if cell.interval_ms < at else "none",
            "messages",
        )
        for cell in sorted(cells, key=lambda c: -c.interval_ms)
    ]
    above = [cell.queues for cell in cells if cell.interval_ms > at]
    below = [cell.queues for cell in cells if cell.interval_ms < at]
    if not above or not below:
        return not_run(f"Needs intervals above and below {at:g} ms.", lines=lines)
    reason = f"A queue at {sum(below)} of {len(below)} shorter intervals, at {sum(above)} of {len(above)} longer ones."
    holds = [all(cell.queues == (cell.interval_ms < at) for cell in of_run if cell in cells) for of_run in usual(run)]
    return stated([mostly(holds)], reason, lines, runs=len(holds))


def _broker_limits(run: MeasuredRuns) -> Verdict:
    others = {mode: (rate, full) for mode, rate, full in _rates(run)}
    first = others.pop(PROTOTYPE, None)
    if first is None or not first[1] or not others:
        return not_run("Needs the prototype with a queue and another mode: --write-mode prototype,sleep,session,row")
    mode, (rate, _full) = max(others.items(), key=lambda one: one[1][0].estimate)
    by_run = [{name: one.estimate for name, one, _ in _rates(one_run)} for one_run in run.runs]
    times = over_runs([rates[mode] / rates[PROTOTYPE] for rates in by_run if {mode, PROTOTYPE} <= rates.keys()])
    reason = f"The same broker passed on {rate.estimate:.4g} a second to another instance ({WRITE_MODES[mode].about})"
    reason = f"{reason}: {rate.estimate / first[0].estimate:.1f} times as many."
    return stated([(times or UNKNOWN).p_values(0, NEAR)], reason, _rate_lines(run))


def _qos(run: MeasuredRuns) -> Verdict:
    first, *others = (
        full_rates([[cell for cell in cells if cell.qos == qos] for cells in usual(run)]) for qos in (0, 1, 2)
    )
    changes = {
        f"QoS {qos} against QoS 0": changed(first, rates) for qos, rates in enumerate(others, 1) if first and rates
    }
    if not changes:
        return not_run("Needs QoS 0 and another one, with a queue: --qos 0,1,2 --intervals 10")
    return _low_impact(changes)


def _persistence(off: MeasuredRuns, on: MeasuredRuns) -> Verdict:
    rates = [full_rates(usual(run)) for run in (off, on)]
    if not all(rates):
        return not_run("Needs a queue on both sides: an interval of 10 ms.")
    return _low_impact({"queue on disk against in memory": changed(*rates)})


def _low_impact(changes: dict[str, Interval]) -> Verdict:
    lines = [Line(what, share, unit="change") for what, share in changes.items()]
    reason = f"The rate changes by {', '.join(f'{share.estimate:+.1%}' for share in changes.values())}; "
    return kept(lines, -LOW_IMPACT, LOW_IMPACT, f"{reason}the paper gives no figure, low is within {LOW_IMPACT:.0%}.")


def _limit(run: MeasuredRuns) -> Verdict:
    by_run = [[cell for cell in cells_of(one) if cell.figure("limit_per_s")] for one in run.runs]
    cells = [cell for of_run in by_run for cell in of_run]
    if not cells:
        return not_run("The search found no rate that is sustained.")
    lines = []
    for name in dict.fromkeys(cell.searched for cell in cells):
        same = [[cell for cell in of_run if cell.searched == name] for of_run in by_run]
        limits = units([cell.figure("limit_per_s") or math.nan for cell in of_run] for of_run in same)
        value = (over_runs(limits) if len(limits) >= FEWEST_RUNS else None) or Interval(fmean(limits))
        lines.append(Line(f"{name}: {_limited([cell for of_run in same for cell in of_run])}", value, "", "/s"))
    by = [cell.limited_by for cell in cells]
    known = [[one for cell in of_run if (one := cell.limited_by) not in OPEN] for of_run in by_run]
    left_open = len(by) - sum(map(len, known))
    reason = f"The broker's processor is the limit in {by.count('broker')} of {len(by)} searches"
    reason += f", {left_open} left open." if left_open else "."
    by_search = [one for one in known if one]
    shown = mostly({*one} == {"broker"} for one in by_search)[0]
    refuted = mostly("broker" not in one for one in by_search)[0]
    return stated([(shown, refuted)], reason, lines, runs=len(by_search))


def _limited(searches: Sequence[MeasuredTwin]) -> str:
    """Return what limited searches alike, e.g. "the commit to disk at 93 % (2 of 3 searches)"."""
    by = Counter(cell.limited_by for cell in searches)
    name, count = by.most_common(1)[0]
    share = next(cell.evidence.get(name) for cell in searches if cell.limited_by == name)
    text = LIMITS.get(name, name) + (f" at {share:.0%}" if share is not None else "")
    return text if len(searches) == 1 else f"{text} ({count} of {len(searches)} searches)"
