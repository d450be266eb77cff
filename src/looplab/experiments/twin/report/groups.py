"""The repetitions of one number of brokers in one placement, and what the paper printed for it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import fsum
from statistics import fmean

from looplab.experiments.twin.parameters import CENTRAL, DISTRIBUTED
from looplab.experiments.twin.report import MeasuredTwin, variance
from looplab.report.printed import printed
from looplab.report.samples import Measured
from looplab.report.statistics import Interval
from looplab.report.verdicts import units

# Iterations of the paper's second experiment.
ITERATIONS = 5


@dataclass(frozen=True)
class Group:
    """The repetitions, by run, of one number of brokers in one placement, and what the paper printed for it."""

    brokers: int
    placement: str
    runs: Sequence[Sequence[MeasuredTwin]]

    def __str__(self) -> str:
        return "1 broker" if self.brokers == 1 else f"{self.brokers} brokers, {self.placement}"

    @property
    def cells(self) -> list[MeasuredTwin]:
        return [cell for cells in self.runs for cell in cells]

    @property
    def each(self) -> list[float]:
        """Messages a second of a broker, the mean of the brokers: by repetition, or by run if there are three."""
        return self._rates(fmean)

    @property
    def total(self) -> list[float]:
        """Messages a second of all brokers together: by repetition, or by run if there are three."""
        return self._rates(fsum)

    def _rates(self, of_brokers: Callable[[Sequence[float]], float]) -> list[float]:
        by_run = ([cell.broker_figures("rate_out_per_s") for cell in cells] for cells in self.runs)
        return units([of_brokers(by_broker) for by_broker in rates if by_broker] for rates in by_run)

    @property
    def times_s(self) -> list[list[float]]:
        """The time that each broker took, by repetition: a list a broker."""
        return _by_broker(self.cells)

    @property
    def variances(self) -> list[float]:
        """The variance of a broker's time over the repetitions of each run, the mean of the brokers."""
        pooled = map(variance.pooled, map(_by_broker, self.runs))
        return [each[0] for each in pooled if each]

    @property
    def variance(self) -> Interval | None:
        """The variance of a broker's time over the repetitions, the mean of the brokers; None for one repetition."""
        pooled = variance.pooled(self.times_s)
        return variance.interval(*pooled) if pooled else None

    def printed(self, name: str) -> str:
        """Return the figure of that name in the paper, "" if it gives none."""
        value = published().get((name, self.brokers, "" if self.brokers == 1 else self.placement))
        return "" if value is None else f"{value:.2f}"


def _by_broker(cells: Sequence[MeasuredTwin]) -> list[list[float]]:
    repetitions = [cell.broker_figures("operation_s") for cell in cells]
    return [list(times) for times in zip(*repetitions, strict=False)]


@cache
def published() -> Mapping[tuple[str, int, str], float]:
    """Return the figures that the paper's text gives, by name, number of brokers and placement ("" for one)."""
    lines = printed(__file__, "twin.csv")
    return {(line["name"], int(line["brokers"]), line["placement"]): float(line["value"]) for line in lines}


def cells_of(run: Measured) -> list[MeasuredTwin]:
    """Return the valid cells of all runs alike."""
    cells = (cell for one in run.runs for cell in one.cells.values())
    return [cell for cell in cells if isinstance(cell, MeasuredTwin) and cell.valid]


def groups(run: Measured) -> list[Group]:
    """Return the repetitions by number of brokers and placement."""
    by_key: dict[tuple[int, str], dict[str, list[MeasuredTwin]]] = {}
    for one in run.runs:
        for cell in cells_of(one):
            by_key.setdefault((cell.brokers, cell.placement), {}).setdefault(one.run.run_id, []).append(cell)
    return [Group(*key, list(by_run.values())) for key, by_run in sorted(by_key.items())]


def published_ratio(brokers: int) -> variance.Ratio:
    """Return the paper's variance of the distributed brokers over that of the central ones, from five values each."""
    given = published()
    freedom = (ITERATIONS - 1, ITERATIONS - 1)
    return variance.compare(given["variance", brokers, DISTRIBUTED], given["variance", brokers, CENTRAL], freedom)
