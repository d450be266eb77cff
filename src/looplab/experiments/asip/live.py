"""What Prometheus gets of asip-throughput beside its spec: the frequencies that the running cell has tried."""

from collections.abc import Mapping
from typing import Any

from looplab.experiments.asip import step_ratios
from looplab.metrics.cells import LiveCell
from looplab.metrics.text_format import line
from looplab.spec.cell import Cell


class Live(LiveCell):
    """One cell of the running run, with the steps of its bisection."""

    def __init__(self, cell: Cell, labels: Mapping[str, str]) -> None:
        super().__init__(cell, labels)
        self._steps: dict[float, float] = {}

    def settle_row(self, fate: str, columns: Any, row: int) -> None:
        super().settle_row(fate, columns, row)
        frequency_uhz, edges_in = columns["frequency_uhz"][row], columns["edges_in"][row]
        if fate in ("answered", "late") and frequency_uhz > 0 < edges_in:
            self._steps[frequency_uhz / 1e6] = columns["edges_out"][row] / edges_in

    def _render(self) -> dict[str, str]:
        if not self._steps:
            return super()._render()
        ratios = step_ratios(self._steps).items()
        tracked, ratio = "asip_tracked_hz", "asip_step_tracked_ratio"
        return {
            **super()._render(),
            tracked: line(tracked, self.labels, max(self._steps)),
            ratio: "".join(line(ratio, {**self.labels, "frequency_hz": hz}, value) for hz, value in ratios),
        }
