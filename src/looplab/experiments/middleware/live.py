"""What Prometheus gets of the middleware beside its spec: the distribution of the running cell's response."""

from collections.abc import Mapping
from typing import Any

from looplab.experiments.middleware import LoadCell
from looplab.metrics.distributions import Distribution, bounds_s


def latencies(state: Mapping[str, Any]) -> dict[str, Distribution]:
    """Return the distribution of the cell that is measured now, from the live state; {} before the first answer."""
    if not (response := state.get("response")):
        return {}
    shown = Distribution(bounds_s(*LoadCell.response.decades))
    # A bucket of the histogram, narrower than a thousandth, is known by its upper end.
    for upper_ns, count in response["counts"].items():
        shown.add(int(upper_ns), count)
    return {str(LoadCell.response.metric): shown}
