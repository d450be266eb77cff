"""What the thesis published, from the files in published/."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean

from looplab.experiments.loop.thesis_tables import row
from looplab.report.cell import Key
from looplab.report.csv_rows import printed


@dataclass(frozen=True)
class PublishedPoint:
    """`share` of the messages of `scenario` lay below `below_us`, in the words about figure `figure`.

    Where the text says "takes about", there is no share (None): it is drawn at the half.
    """

    figure: str
    scenario: str
    metric: str
    share: float | None
    below_us: float

    @property
    def height(self) -> float:
        return 0.5 if self.share is None else self.share

    @property
    def text(self) -> str:
        bound = f"{self.below_us / 1000:g} ms"
        return f"about {bound}" if self.share is None else f"{self.share:.0%} below {bound}"


@dataclass(frozen=True)
class PublishedFigure:
    """A CDF figure of the thesis, with every scenario that its text gives a point for, and what the text reads."""

    number: str
    compares: str
    scenarios: tuple[str, ...]

    @property
    def text(self) -> str:
        scenarios = "; ".join(f"{name}: {titles()[name]}" for name in self.scenarios)
        return f"{scenarios}. The thesis: {self.compares}."


@cache
def titles() -> dict[str, str]:
    """Return what each of the nine scenarios is, in a few words."""
    return {f"scenario{line['scenario']}": line["title"] for line in printed(__file__, "thesis_scenarios.csv")}


@cache
def points() -> list[PublishedPoint]:
    return [
        PublishedPoint(
            figure=at["figure"],
            scenario=f"scenario{at['scenario']}",
            metric=at["metric"],
            share=float(at["share"]) if at["share"] else None,
            below_us=float(at["below_us"]),
        )
        for at in printed(__file__, "thesis_figure_points.csv")
    ]


@cache
def figures() -> list[PublishedFigure]:
    texts: dict[str, list[str]] = {}
    for line in printed(__file__, "thesis_figures.csv"):
        texts.setdefault(line["figure"], []).append(f"{line['metric']}: {line['claim']}")
    return [
        PublishedFigure(number, "; ".join(claims), tuple(sorted({p.scenario for p in points() if p.figure == number})))
        for number, claims in texts.items()
    ]


def mean_us(scenario: str, keys: Sequence[Key], figure: str = "O mean") -> float | None:
    """Return the mean of a published figure, e.g. "T min", over some cells; None if one of them has none."""
    metric, statistic = figure.replace("mean", "avg").split()
    rows = [row(scenario, *key) for key in keys]
    values = [one.overhead_us if figure == "O mean" else one.figure(metric, statistic) for one in rows]
    known = [value for value in values if value is not None]
    return fmean(known) if known and len(known) == len(values) else None
