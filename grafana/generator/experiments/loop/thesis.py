"""The thesis's figures, drawn beside what is measured."""

import math
from collections.abc import Iterator

from generator.published_rules import Rule
from looplab.experiments.loop import LoopCell
from looplab.experiments.loop.report import published
from looplab.metrics.distributions import bounds_s


def nearest_bound_s(latency_s: float, metric: str) -> float:
    """Return the bound of the histogram at which a published point is drawn."""
    return min(bounds_s(*LoopCell.columns[metric].decades), key=lambda bound: abs(math.log(bound / latency_s)))


def rules() -> Iterator[Rule]:
    """Yield the points of the CDF figures and the cells of the tables."""
    for point in published.points():
        bound_s = nearest_bound_s(point.below_us / 1e6, point.metric)
        labels = {"figure": point.figure, "scenario": point.scenario, "metric": point.metric, "le": repr(bound_s)}
        yield "published_latency_cdf_ratio", point.height, labels
    for row in published.rows():
        cell = {"scenario": row.scenario, "interval_ms": f"{row.interval_ms:g}", "qos": str(row.qos)}
        for name, latency_us in row.latency_us.items():
            metric, _, statistic = name.partition("_")
            labels = {**cell, "metric": metric, "statistic": statistic}
            yield "published_latency_seconds", latency_us / 1e6, labels
