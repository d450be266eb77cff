"""What Prometheus gets of balance beside its spec: the newest tilt and command."""

from typing import Any

from looplab.experiments.balance import NAME
from looplab.experiments.balance.plant import volts_of
from looplab.metrics.cells import LiveCell
from looplab.metrics.text_format import line
from looplab.spec.columns import ABSENT

DEGREES = 57.29578e-6  # of a microradian


class Live(LiveCell):
    """One cell of the running run."""

    _newest: tuple[float, float] | None = None

    def settle_row(self, fate: str, columns: Any, row: int) -> None:
        super().settle_row(fate, columns, row)
        if columns["tilt_urad"][row] != ABSENT:
            self._newest = columns["tilt_urad"][row] * DEGREES, volts_of(columns["level"][row])

    def _render(self) -> dict[str, str]:
        names = (f"{NAME}_tilt_degrees", f"{NAME}_wheel_volts")
        texts = super()._render()
        if self._newest:
            texts |= {name: line(name, self.labels, value) for name, value in zip(names, self._newest, strict=True)}
        return texts
