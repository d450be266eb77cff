"""A run of cells: what makes it INVALID, and what is left of one that is cut short."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.ports import free_port

from looplab.run.cells import CellRun, CutShort, Measured
from looplab.run.life import live
from looplab.run.record import Place
from looplab.run.samples import ANSWERED
from looplab.spec.cell import Cell
from looplab.spec.columns import Count, Key, Latency
from looplab.spec.experiment import Experiment
from looplab.spec.parameters import RunParameters, integer, numbers


class Wait(Cell):
    """Waits of one length."""

    wait_ms = Key(float, "how long", values="waits_ms", pace=True)
    sent = Count("begun", total=True)
    answered = Count("ended", outcome="answered")
    lost = Count("not ended", outcome="lost")
    W = Latency("the wait", column="total_us", times=("sent_ns", "received_ns"))


@dataclass(frozen=True, kw_only=True)
class Waits(RunParameters):
    """Two cells of two messages."""

    cell = Wait
    messages: int = integer(2, 1, 9)
    waits_ms: tuple[float, ...] = numbers("1 2", 1, 9)


class Controller(CellRun[Waits, Wait]):
    """Measures without waiting; a cell in `gone` cannot be, one in `wrong` has a fault."""

    experiment = Experiment("waits", __name__, "compose/waits", cell=Wait)
    gone: tuple[float, ...] = ()
    wrong: tuple[float, ...] = ()

    def measure_cell(self, index: int, cell: Wait) -> Measured[Wait]:
        if cell.wait_ms in self.gone:
            raise CutShort("the clock is gone")
        store = self.record.store
        for row in self.parameters.rows(index):
            store["due_ns"][row], store["sent_ns"][row] = row, row
            store["received_ns"][row], store["state"][row] = row + int(cell.wait_ms * 1e6), ANSWERED
        return Measured(cell, faults=["the clock stopped"] if cell.wait_ms in self.wrong else [])


@pytest.fixture
def controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Controller:
    """No treatments service answers: each run is INVALID by that, too."""
    monkeypatch.setenv("TREATMENTS_URL", f"http://127.0.0.1:{free_port()}/facts")
    said: list[Any] = []
    place = Place(tmp_path, None, lambda event, **facts: said.append((event, facts)))
    made = Controller(Waits.read({}, "compose/waits", "waits"), place)
    made.said = said  # type: ignore[attr-defined]
    return made


def test_cells_are_stored_and_progress_is_reported(controller: Controller) -> None:
    document = live(controller)
    assert [(cell["wait_ms"], cell["sent"], cell["W_us"]["avg"]) for cell in document["cells"]] == [
        (1, 2, 1e3),
        (2, 2, 2e3),
    ]
    assert document["experiment"] == "waits"
    done = [facts["messages_done"] for event, facts in controller.said if event == "repetition"]  # type: ignore[attr-defined]
    assert done == [2, 4]


def test_a_fault_names_its_cell(controller: Controller) -> None:
    controller.wrong = (2,)
    document = live(controller)
    assert [cell["valid"] for cell in document["cells"]] == [True, False]
    assert document["invalid_because"][-1] == "2 ms: the clock stopped"


def test_a_run_that_is_cut_short_keeps_what_it_has(controller: Controller) -> None:
    controller.gone = (2,)
    document = live(controller)
    assert len(document["cells"]) == 1
    assert document["invalid_because"][-1] == "ended after 1 of 2 cells: the clock is gone"
