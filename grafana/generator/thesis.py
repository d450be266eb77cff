"""The thesis's figures as constants in the queries of the panels that draw them."""

import math

from generator.queries import labelled, last
from looplab.experiments.loop import LoopCell
from looplab.experiments.loop.report import published
from looplab.metrics.distributions import bounds_s


def nearest_bound_s(latency_s: float, metric: str) -> float:
    """Return the bound of the histogram at which a published point is drawn."""
    return min(bounds_s(*LoopCell.columns[metric].decades), key=lambda bound: abs(math.log(bound / latency_s)))


def with_points(curves: str, figure: str, metric: str) -> str:
    """Return a query for curves and, as a series for each scenario, the published points of a figure.

    At all other bounds those are NaN: the panel draws a missing value at 0, and NaN not at all.
    """
    drawn = [point for point in published.points() if (point.figure, point.metric) == (figure, metric)]
    points = "\nor ".join(
        labelled(
            f"vector({point.height:g})",
            series=f"{point.scenario} published",
            le=repr(nearest_bound_s(point.below_us / 1e6, metric)),
        )
        for point in drawn
    )
    bounds = last(f'lab_latency_seconds_bucket{{experiment="loop",metric="{metric}",le!="+Inf"}}')
    nothing = f"(max by (le) ({bounds} or {points}) * NaN)"
    dense = "\nor ".join(labelled(nothing, series=f"{point.scenario} published") for point in drawn)
    return f"({curves})\nor {points}\nor {dense}"


def table(interval_ms: float = 20, qos: int = 0) -> str:
    """Return the published figures of one cell of each scenario in Markdown, in ms."""
    columns = [f"{metric}_{one}" for metric in "TO" for one in ("min", "avg", "max")] + ["R_avg"]
    lines = [f"| scenario | {' | '.join(name.replace('_', ' ') for name in columns)} |", "|---" * 8 + "|"]
    for row in published.rows():
        if (row.interval_ms, row.qos) == (interval_ms, qos):
            figures = (f"{row.latency_us[name] / 1000:.2f}" if name in row.latency_us else "-" for name in columns)
            lines.append(f"| {row.scenario} | {' | '.join(figures)} |")
    return "\n".join(lines)
