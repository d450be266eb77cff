"""One cell of asip: a language, a transport and a placement; latency against the wire, or the frequency tracked."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from looplab.report.cell import Cell, KeyPart
from looplab.report.statistics import UNKNOWN, Interval, over_runs

# Figures of a cell that are no latencies. `over_wire`: mean latency over the time of its bytes on the wire.
FIGURES = ("over_wire", "wire_us", "wire_bytes", "tracked_hz", "wire_hz", "tracked_share")


class AsipCell(Cell):
    """One client over one transport; `placement` is what runs elsewhere."""

    figures = FIGURES
    language = KeyPart(0, str)
    transport = KeyPart(1, str)
    placement = KeyPart(2, str)

    @property
    def sent(self) -> int:
        """The tests of a latency run, or the steps of a bisection."""
        return int(self.document["tests"])

    @property
    def wire_us(self) -> float:
        """How long a test's bytes take on the wire to and from the board; NaN if unknown."""
        return _number(self.document.get("wire_us"))

    @property
    def wire_bytes(self) -> float:
        """The bytes of a test in both directions; NaN if unknown."""
        held = self.document.get("wire_bytes") or {}
        return sum(_number(held.get(way)) for way in ("to_board", "to_client"))

    @property
    def wire_hz(self) -> float:
        """The highest frequency whose messages the wire carries; NaN if unknown."""
        return _number(self.document.get("wire_hz"))

    @property
    def tracked_hz(self) -> Interval:
        """The highest frequency that the client copied, over the runs; 0 if it copied none, NaN if unknown."""
        if self.runs:
            own = [cell.tracked_hz.estimate for cell in self.runs if isinstance(cell, AsipCell)]
            return over_runs(own) or UNKNOWN
        if "tracked_hz" not in self.document:
            return UNKNOWN
        return Interval(float(self.document["tracked_hz"] or 0.0), math.nan, math.nan)

    @property
    def tracked_share(self) -> Interval:
        """The frequency tracked over the wire's limit."""
        return UNKNOWN if not self.wire_hz > 0 else self.tracked_hz.over(self.wire_hz)

    @property
    def over_wire(self) -> Interval:
        """The mean latency on the client's clock over the time on the wire."""
        mean = self.mean("latency") if "latency" in self.latency_us else None
        return UNKNOWN if mean is None or not self.wire_us > 0 else mean.over(self.wire_us)

    @property
    def steps(self) -> Sequence[Mapping[str, Any]]:
        """The steps of a bisection, in the order measured."""
        return self.document.get("steps") or ()

    def edge(self, name: str) -> float:
        """Return a statistic of the oscilloscope's latency in us, NaN if it was not measured."""
        return _number((self.document.get("edge_latency_us") or {}).get(name))


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)
