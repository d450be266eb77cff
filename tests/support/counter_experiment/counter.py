"""A counter that sleeps: how much longer than asked does a sleep take?"""

import time
from dataclasses import dataclass

from looplab.run.cells import CellResult, CellRun
from looplab.run.samples import ANSWERED, WAITING
from looplab.spec.cell import Cell
from looplab.spec.columns import Count, Figure, Key, Latency
from looplab.spec.experiment import Bound, Experiment
from looplab.spec.parameters import MESSAGES, Option, RunParameters, integer, numbers

SLEEPS = Option("--sleeps", "SLEEPS_MS", "MS,…", "how long to sleep, one cell each, e.g. 1,5")


class Sleep(Cell):
    sleep_ms = Key(float, "how long to sleep", values="sleeps_ms", pace=True, heading="asked", default=5.0)
    sent = Count("sleeps that began", heading="sleeps", total=True)
    answered = Count("sleeps that ended", outcome="answered")
    lost = Count("sleeps that were interrupted", outcome="lost")
    S = Latency("how long a sleep took", column="total_us", times=("sent_ns", "received_ns"), table=("avg",), live=True)
    ratio = Figure("mean sleep over the one asked for", unit="×", over=("S", "sleep_ms"), heading="ratio", live=True)


@dataclass(frozen=True, kw_only=True)
class PARAMETERS(RunParameters):
    cell = Sleep
    messages: int = integer(100, 1, 100_000, option=MESSAGES, quick="100")
    sleeps_ms: tuple[float, ...] = numbers("1 5", 0, 1000, option=SLEEPS, quick="5,20")


CLAIMS = {("longer", "A sleep takes at least as long as asked"): Bound("ratio", at_least=1)}
EXPERIMENT = Experiment("counter", __name__, "compose/experiments/counter", cell=Sleep, bounds=CLAIMS)


class Controller(CellRun[PARAMETERS, Sleep]):
    experiment = EXPERIMENT

    def measure_cell(self, index: int, cell: Sleep) -> CellResult[Sleep]:
        store = self.record.store
        for row in self.parameters.rows(index):
            store["state"][row] = WAITING
            store["due_ns"][row] = store["sent_ns"][row] = time.perf_counter_ns()
            time.sleep(cell.sleep_ms / 1000)
            store["received_ns"][row], store["state"][row] = time.perf_counter_ns(), ANSWERED
        return CellResult(cell)
