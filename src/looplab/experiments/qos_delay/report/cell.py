"""One cell of qos-delay: the delay of each link, the latency over it, what the publisher's segments carried."""

from collections.abc import Mapping, Sequence
from typing import Any

from looplab.report.cell import Cell, KeyPart
from looplab.report.statistics import UNKNOWN, Interval, over_runs
from looplab.report.verdicts import FEWEST_RUNS

# Figures of a cell that are no latencies: latency over delay, MQTT packets in a TCP segment.
FIGURES = ("ratio", "packets_per_segment", "largest_segment_bytes")


class DelayCell(Cell):
    """One pair of link delays at one QoS."""

    figures = FIGURES
    delay_pb_ms = KeyPart(0, float)
    delay_bs_ms = KeyPart(1, float)

    @property
    def end_to_end_ms(self) -> float:
        """As wanted: the order of the cells."""
        return self.delay_pb_ms + self.delay_bs_ms

    @property
    def symmetrical(self) -> bool:
        return self.delay_pb_ms == self.delay_bs_ms

    @property
    def made_ms(self) -> float:
        """The mean delay of both links as the emulator made it, 0 if it is not known."""
        made = [float((cell.document.get("end_to_end_ms") or {}).get("total") or 0.0) for cell in self._each]
        return sum(made) / len(made) if min(made) > 0 else 0.0

    @property
    def ratio(self) -> Interval:
        """The mean latency over the delay that was made, taken as exact: it is the mean of thousands of packets.

        Of two runs, the interval is over the connections of both: without one, two runs would decide more than one.
        """
        if len(self.runs) >= FEWEST_RUNS:
            return over_runs([cell.ratio.estimate for cell in self._each]) or UNKNOWN
        if "L" not in self._intervals or self.made_ms <= 0:
            return UNKNOWN
        return self._intervals["L"][0].over(1000 * self.made_ms)

    @property
    def packets_per_segment(self) -> float | None:
        """The mean number of MQTT packets in a TCP segment of the publisher; of several runs the mean of theirs."""
        return _mean([(cell.publisher.get("mqtt_packets_per_segment") or {}).get("mean") for cell in self._each])

    @property
    def largest_segment_bytes(self) -> float | None:
        sizes = [(cell.publisher.get("size_bytes") or {}).get("max") for cell in self._each]
        return max((float(size) for size in sizes if size), default=None)

    @property
    def packets_per_message(self) -> Mapping[str, float]:
        """The MQTT control packets of each type that one message cost."""
        return self.document.get("packets_per_message") or {}

    @property
    def publisher(self) -> Mapping[str, Any]:
        """The segments of the publisher, as run.json has them; of several runs those of the newest."""
        return (self.document.get("segments") or {}).get("publisher") or {}

    @property
    def _each(self) -> "Sequence[DelayCell]":
        return [cell for cell in self.runs if isinstance(cell, DelayCell)] or [self]


def _mean(values: Sequence[float | None]) -> float | None:
    """Return the mean of those that are known, None if none is."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
