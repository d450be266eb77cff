"""What Prometheus gets of asip-throughput beside its spec: the highest frequency that the running cell has tracked."""

from collections.abc import Iterator
from typing import Any

from looplab.metrics.cells import LiveCell


class Live(LiveCell):
    """One cell of the running run, with the frequencies of its bisection whose edges were all copied."""

    _tracked_hz = 0.0

    def settle_row(self, fate: str, columns: Any, row: int) -> None:
        super().settle_row(fate, columns, row)
        edges_in, edges_out = columns["edges_in"][row], columns["edges_out"][row]
        if fate in ("answered", "late") and 0 < edges_in <= edges_out:
            self._tracked_hz = max(self._tracked_hz, columns["frequency_uhz"][row] / 1e6)

    def more_figures(self) -> Iterator[tuple[str, float]]:
        if self._tracked_hz:
            yield "tracked_hz", self._tracked_hz
