"""One measured cell of asip: latency against the wire, or the frequency tracked."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from looplab.experiments.asip import AsipCell, LatencyCell, ThroughputCell
from looplab.report.cell import MeasuredCell
from looplab.report.statistics import UNKNOWN, Interval


class MeasuredAsip(MeasuredCell, AsipCell):
    """One client over one transport; a figure that the other scenario measures is NaN or UNKNOWN."""

    @property
    def wire_time_us(self) -> float:
        """How long a test's bytes take on the wire to and from the board."""
        return self._number("wire_us")

    @property
    def wire_size(self) -> float:
        """The bytes of a test in both directions."""
        return self._number("wire_bytes")

    @property
    def wire_limit_hz(self) -> float:
        """The highest frequency whose messages the wire carries."""
        return self._number("wire_hz")

    @property
    def tracked(self) -> Interval:
        """The highest frequency that the client copied, over the runs; 0 if it copied none."""
        return self._interval("tracked_hz")

    @property
    def tracked_over_wire(self) -> Interval:
        """The frequency tracked over the wire's limit."""
        return UNKNOWN if not self.wire_limit_hz > 0 else self.tracked.over(self.wire_limit_hz)

    @property
    def latency_over_wire(self) -> Interval:
        """The mean latency on the client's clock over the time on the wire."""
        return self._interval("over_wire")

    @property
    def steps(self) -> Sequence[Mapping[str, Any]]:
        """The steps of a bisection, in the order measured."""
        return self.document.get("steps") or ()

    def edge(self, name: str) -> float:
        """Return a statistic of the oscilloscope's latency in us, NaN if it was not measured."""
        value = self.columns["edge_latency"].of(self).get(name) if "edge_latency" in self.columns else None
        return math.nan if value is None else float(value)

    def _interval(self, name: str) -> Interval:
        return self.interval(name) if name in self.columns else UNKNOWN

    def _number(self, name: str) -> float:
        value = self.columns[name].of(self) if name in self.columns else None
        return math.nan if value is None else float(value)


class MeasuredLatency(MeasuredAsip, LatencyCell):
    """One client whose tests were timed."""


class MeasuredThroughput(MeasuredAsip, ThroughputCell):
    """One client whose highest frequency was searched."""
