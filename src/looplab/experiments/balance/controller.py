"""One run of balance: the loop's run, whose requests carry commands; its cells have the figures of control, too."""

from typing import Any

from looplab.experiments.balance import EXPERIMENT
from looplab.experiments.balance.control_loop import COLUMNS, ControlLoop
from looplab.experiments.balance.document import control_figures
from looplab.experiments.balance.parameters import BalanceParameters
from looplab.experiments.balance.plant import GAINS
from looplab.experiments.loop import LoopCell
from looplab.experiments.loop.controller import LoopController
from looplab.experiments.loop.protocol import TOPIC_REQUEST
from looplab.run.cells import CellResult
from looplab.run.open_loop import Messages
from looplab.run.samples import SampleStore
from looplab.spec.parameters import SLEEP


class BalanceController(LoopController):
    """The steps of one run."""

    experiment = EXPERIMENT
    columns = (*LoopController.columns, *COLUMNS)
    parameters: BalanceParameters
    measurement: ControlLoop

    def document(self, measured: CellResult[LoopCell], rows: range) -> dict[str, Any]:
        p, store = self.parameters, self.record.store
        each = [range(first, first + p.messages) for first in range(rows.start, rows.stop, p.messages)]
        interval_ns = round(measured.cell.interval_ms * 1e6)
        return {**super().document(measured, rows), **control_figures(store, each, interval_ns)}

    def _measurement(self, store: SampleStore, token: str, per_cell: int) -> ControlLoop:
        p = self.parameters
        requests = Messages(TOPIC_REQUEST, b"", per_cell, p.deadline_ms, sleeps=p.pacing == SLEEP)
        parts = (self._client, self._client.subscriber, store, requests, token, self.news.take)
        return ControlLoop(*parts, gains=p.gains or GAINS)


# The name that looplab.run.life knows it by.
Controller = BalanceController
