"""What Prometheus gets of the middleware beside its spec: the distribution of the running cell's response."""

from collections.abc import Mapping
from typing import Any

from looplab.experiments.middleware import LoadCell
from looplab.metrics.cells import labels_of
from looplab.metrics.distributions import Distribution, bounds_s
from looplab.metrics.text_format import Texts, labels_text

FAMILY = "middleware_latency_seconds"


def live_texts(state: Mapping[str, Any]) -> Texts:
    """Return the histogram of the cell that is measured now, from the live state; {} before the first answer."""
    if not state.get("response"):
        return {}
    response, shown = state["response"], Distribution(bounds_s(*LoadCell.response.decades))
    # A bucket of the histogram counts from its upper end on.
    shown.add_all({int(upper_ns): count for upper_ns, count in response["counts"].items()}, response["sum_ns"])
    labels = {**labels_of(state["parameters"], LoadCell(state["cells"][-1])), "metric": "response"}
    return {FAMILY: shown.histogram_text(FAMILY, labels_text(labels))}
