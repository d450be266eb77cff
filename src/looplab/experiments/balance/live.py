"""What Prometheus gets of balance beside its spec: the newest tilt and command."""

from collections.abc import Iterator
from typing import Any

from looplab.experiments.balance.plant import volts_of
from looplab.metrics.cells import LiveCell
from looplab.spec.columns import ABSENT

DEGREES = 57.29578e-6  # of a microradian


class LiveBalanceCell(LiveCell):
    """One cell of the running run."""

    _newest: tuple[float, float] | None = None

    def settle_row(self, fate: str, columns: Any, row: int) -> None:
        super().settle_row(fate, columns, row)
        if columns["tilt_urad"][row] != ABSENT:
            self._newest = columns["tilt_urad"][row] * DEGREES, volts_of(columns["level"][row])

    def more_figures(self) -> Iterator[tuple[str, float]]:
        if self._newest:
            yield from zip(("tilt_degrees", "wheel_volts"), self._newest, strict=True)


# The name that the exporter knows it by.
Live = LiveBalanceCell
