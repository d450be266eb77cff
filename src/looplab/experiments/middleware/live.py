"""What Prometheus gets of the middleware beside its spec: the distribution of the running cell's response."""

from bisect import bisect_right
from collections.abc import Mapping
from itertools import accumulate
from typing import Any

from looplab.experiments.middleware import LoadCell
from looplab.experiments.middleware.histogram import Histogram
from looplab.metrics.cells import labels_of
from looplab.metrics.distributions import bounds_s
from looplab.metrics.text_format import Texts, labels_text

FAMILY = "middleware_latency_seconds"
BOUNDS_S = bounds_s(*LoadCell.response.decades)


def live_texts(state: Mapping[str, Any]) -> Texts:
    """Return the histogram of the cell that is measured now, from the live state; {} before the first answer."""
    if not (response := state.get("response")):
        return {}
    labels = labels_of(state["parameters"], LoadCell(state["cells"][-1]))
    return {FAMILY: _histogram_text({**labels, "metric": "response"}, Histogram.from_json(response))}


def _histogram_text(labels: Mapping[str, str], histogram: Histogram) -> str:
    """Return buckets, sum and count as sample lines; a bucket of the histogram counts from its upper end on."""
    uppers = sorted(histogram.counts)
    seen = [0, *accumulate(histogram.counts[upper] for upper in uppers)]
    counts = [*(seen[bisect_right(uppers, round(bound * 1e9))] for bound in BOUNDS_S), histogram.count]
    base, names = labels_text(labels), [*map(repr, BOUNDS_S), "+Inf"]
    buckets = (f'{FAMILY}_bucket{{{base},le="{name}"}} {n}\n' for name, n in zip(names, counts, strict=True))
    total = f"{FAMILY}_sum{{{base}}} {histogram.sum_ns / 1e9!r}\n{FAMILY}_count{{{base}}} {histogram.count}\n"
    return "".join(buckets) + total
