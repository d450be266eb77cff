"""What several brokers do: their total, each one's rate, and how much their times vary, beside the paper's figures.

Variances are compared run by run, each run with its ratio.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, variance

from looplab.experiments.twin.parameters import CENTRAL, DISTRIBUTED
from looplab.experiments.twin.report import MeasuredTwin, cells_of, published
from looplab.report.rules import kept, stated
from looplab.report.samples import MeasuredRuns
from looplab.report.statistics import Interval, changed, compare, over_runs
from looplab.report.verdicts import NO_CONTRAST, Line, Verdict, not_run, units

# A change within SAME is none; totals within SIMILAR are similar: the printed ones differ by 2.5 and 5.5 %.
SAME, SIMILAR = 0.05, 0.1


@dataclass(frozen=True)
class Group:
    """The repetitions, by run, of one number of brokers in one placement, and what the paper printed for it."""

    brokers: int
    placement: str
    runs: Sequence[Sequence[MeasuredTwin]]

    def __str__(self) -> str:
        return "1 broker" if self.brokers == 1 else f"{self.brokers} brokers, {self.placement}"

    def rates(self, of_brokers: Callable[[Sequence[float]], float]) -> list[float]:
        """Return messages a second, the mean or the sum of the brokers: by repetition, or by run if there are three."""
        by_run = ([cell.broker_figures("rate_out_per_s") for cell in cells] for cells in self.runs)
        return units([of_brokers(by_broker) for by_broker in rates if by_broker] for rates in by_run)

    @property
    def times_s(self) -> list[list[float]]:
        """The time that each broker took, by repetition: a list a broker."""
        return _by_broker([cell for cells in self.runs for cell in cells])

    @property
    def variances(self) -> list[float]:
        """The variance of a broker's time over the repetitions of each run, the mean of the brokers."""
        by_run = ([times for times in _by_broker(cells) if len(times) > 1] for cells in self.runs)
        return [fmean(map(variance, by_broker)) for by_broker in by_run if by_broker]

    def printed(self, name: str) -> str:
        """Return the figure of that name in the paper, "" if it gives none."""
        value = published().get((name, self.brokers, "" if self.brokers == 1 else self.placement))
        return "" if value is None else f"{value:.2f}"


def groups(run: MeasuredRuns) -> dict[tuple[int, str], Group]:
    """Return the repetitions by number of brokers and placement."""
    by_key: dict[tuple[int, str], dict[str, list[MeasuredTwin]]] = {}
    for one in run.runs:
        for cell in cells_of(one):
            by_key.setdefault((cell.brokers, cell.placement), {}).setdefault(one.run.run_id, []).append(cell)
    return {key: Group(*key, list(by_run.values())) for key, by_run in sorted(by_key.items())}


def _by_broker(cells: Sequence[MeasuredTwin]) -> list[list[float]]:
    repetitions = [cell.broker_figures("operation_s") for cell in cells]
    return [list(times) for times in zip(*repetitions, strict=False)]


def more_brokers(run: MeasuredRuns) -> Verdict:
    """Judge whether with each step to more brokers the total rises and the rate of each broker falls."""
    found = groups(run)
    figures = (("each", "broker-rate", fmean), ("total", "total-rate", math.fsum))
    lines = [
        Line(f"{group}: {what}", value, group.printed(name), "/s")
        for group in found.values()
        for what, name, of_brokers in figures
        if (value := over_runs(group.rates(of_brokers))) and not (group.brokers == 1 and what == "total")
    ]
    steps = [
        pair
        for placement in (CENTRAL, DISTRIBUTED)
        for pair in pairwise(one for one in found.values() if one.brokers == 1 or one.placement == placement)
    ]
    if not steps:
        return not_run("Needs at least two numbers of brokers.", lines=lines)
    each, total = ([changed(a.rates(of), b.rates(of)) for a, b in steps] for _what, _name, of in figures)
    rises, falls = sum(share.estimate > 0 for share in total), sum(share.estimate < 0 for share in each)
    reason = f"The total rises at {rises} of {len(steps)} steps, the rate of each broker falls at {falls}."
    # Shown where it changes at all; refuted where it changes by less than SAME, or the other way.
    up = [(2 * share.p_above(0), 2 * share.p_below(SAME)) for share in total]
    down = [(2 * share.p_below(0), 2 * share.p_above(-SAME)) for share in each]
    return stated([*up, *down], reason, lines)


def _pairs(run: MeasuredRuns) -> list[tuple[int, Group, Group]]:
    """Return each number of brokers that was measured in both placements, with its two groups."""
    found = groups(run)
    return [
        (n, found[n, CENTRAL], found[n, DISTRIBUTED]) for n in (2, 4) if {(n, CENTRAL), (n, DISTRIBUTED)} <= {*found}
    ]


def _with_contrast(verdict: Verdict, run: MeasuredRuns) -> Verdict:
    """Return a verdict on both placements; withdrawn where the small machines share processors."""
    if (scale := run.run.parameters.get("machine_scale", 1)) < 1:
        share = f"With MACHINE_SCALE={scale:g} two small machines share a processor"
        verdict.withdraw(f"{share}, as in one machine: it takes a computer with four.", NO_CONTRAST)
    return verdict


def alike(run: MeasuredRuns) -> Verdict:
    """Judge whether both placements pass on similar totals."""
    lines = []
    for n, central, other in _pairs(run):
        if comparison := compare(central.rates(math.fsum), other.rates(math.fsum), runs=False):
            text = f"{_printed_ratio('total-rate', n) - 1:+.1%}"
            lines.append(Line(f"{n} brokers: distributed against central", comparison.share, text, "change"))
    if not lines:
        return not_run("Needs both placements, each at least twice.")
    shares = ", ".join(f"{line.value.estimate:+.1%}" for line in lines)
    reason = f"Distributed totals differ by {shares}; similar is within {SIMILAR:.0%}."
    return _with_contrast(kept(lines, -SIMILAR, SIMILAR, reason), run)


def varies(run: MeasuredRuns) -> Verdict:
    """Judge whether times vary more if each broker has its own machine."""
    ratios = {n: ratio for n, central, other in _pairs(run) if (ratio := _ratio(central, other))}
    lines = [
        Line(f"{n} brokers: distributed over central", ratio, f"{_printed_ratio('variance', n):.3g}")
        for n, ratio in ratios.items()
    ]
    lines += [
        Line(f"{group}: variance", value, group.printed("variance"), "s²")
        for group in groups(run).values()
        if group.brokers > 1 and (value := over_runs(group.variances))
    ]
    if not ratios:
        return not_run("Needs both placements, each at least twice.", lines=lines)
    parts = [ratio.p_values(1.0, math.inf) for ratio in ratios.values()]
    return _with_contrast(stated(parts, "Variances are compared run by run.", lines), run)


def _ratio(central: Group, distributed: Group) -> Interval | None:
    """Return the variance of the distributed brokers over that of the central ones; None without one above 0."""
    pairs = list(zip(distributed.variances, central.variances, strict=False))
    return over_runs([over / under for over, under in pairs]) if pairs and min(map(min, pairs)) > 0 else None


def _printed_ratio(name: str, brokers: int) -> float:
    """Return a published figure of distributed brokers over that of central ones."""
    return published()[name, brokers, DISTRIBUTED] / published()[name, brokers, CENTRAL]
