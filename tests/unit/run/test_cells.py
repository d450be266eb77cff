"""A run of cells: what makes it INVALID, and what is left of one that is cut short."""

import errno
import json
from pathlib import Path
from typing import Any

import pytest
from support.counter_experiment import counter
from support.ports import free_port

from looplab.errors import MachineError
from looplab.run import quiet
from looplab.run.cells import CellResult, CutShort
from looplab.run.life import live
from looplab.run.record import Place
from looplab.system.json_service import Request, serve
from looplab.system.machine_facts import ClockDistances
from looplab.treatments.judgement import judge_process


class Controller(counter.Controller):
    """The counter; a cell in `gone` cannot be measured, one in `wrong` has a fault; `found` replaces its parameters."""

    gone: tuple[float, ...] = ()
    wrong: tuple[float, ...] = ()
    found: Any = None

    def prepare(self) -> None:
        super().prepare()
        self.parameters = self.found or self.parameters

    def measure_cell(self, index: int, cell: counter.Sleep) -> CellResult[counter.Sleep]:
        if cell.sleep_ms in self.gone:
            raise CutShort("the clock is gone")
        measured = super().measure_cell(index, cell)
        measured.faults += ["the clock stopped"] if cell.sleep_ms in self.wrong else []
        return measured


@pytest.fixture
def controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Controller:
    """No treatments service answers: each run is INVALID by that, too."""
    monkeypatch.setenv("TREATMENTS_URL", f"http://127.0.0.1:{free_port()}/facts")
    return make(tmp_path / "results", tmp_path)


def make(results: Path, live_folder: Path) -> Controller:
    said: list[Any] = []
    place = Place(results, live_folder, lambda event, **facts: said.append((event, facts)))
    made = Controller(counter.EXPERIMENT.read_parameters({"MESSAGES": "2", "SLEEPS_MS": "1,2"}), place)
    made.said = said  # type: ignore[attr-defined]
    return made


def test_a_second_controller_ends_before_it_touches_anything(controller: Controller, tmp_path: Path) -> None:
    before = (tmp_path / "samples.bin").stat()
    with pytest.raises(MachineError, match=r"goes on: counter, since 20.* UTC\. counter was not started"):
        make(tmp_path / "others", tmp_path)
    assert (tmp_path / "samples.bin").stat().st_mtime_ns == before.st_mtime_ns
    assert not (tmp_path / "others").exists()
    assert [cell["sent"] for cell in live(controller)["cells"]] == [2, 2]


def test_the_cells_that_a_run_found_are_measured_and_stored_in_published_order(controller: Controller) -> None:
    class Backwards(counter.PARAMETERS):
        @property
        def cells(self) -> list[Any]:
            return list(self.published_cells)[::-1]

    controller.found = Backwards(**controller.parameters.as_json())
    controller.wrong = (2,)
    # A version that nobody reports is no version.
    controller.record.versions |= {"database": "17.6", "broker": ""}
    document = live(controller)
    assert document["environment"]["versions"] == {"database": "17.6"}
    assert [one.cell.sleep_ms for one in controller.measured] == [2, 1]
    assert [(cell["sleep_ms"], cell["valid"]) for cell in document["cells"]] == [(1, True), (2, False)]
    assert document["cells"][1]["S_us"]["min"] >= 2000


def test_a_run_that_is_cut_short_keeps_what_it_has(controller: Controller) -> None:
    controller.gone = (2,)
    document = live(controller)
    assert len(document["cells"]) == 1
    assert document["invalid_because"][-1] == "ended after 1 of 2 cells: the clock is gone"


def test_a_volume_without_space_takes_nothing_that_was_measured(
    controller: Controller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The live state has no room from the first cell on."""
    really = Path.write_text

    def write_text(path: Path, text: str, *given: Any, **named: Any) -> int:
        if path.name == "state.json.new":
            raise OSError(errno.ENOSPC, "No space left on device")
        return really(path, text, *given, **named)

    monkeypatch.setattr(Path, "write_text", write_text)
    assert [cell["sent"] for cell in live(controller)["cells"]] == [2, 2]
    assert len([*(tmp_path / "results").glob("*/run.json")]) == 1


@pytest.mark.parametrize(
    ("busy_looks", "settle_s", "wanted", "looks"),
    [(0, 60, False, 2), (3, 60, False, 5), (3, 60, True, 0), (9, 0, False, 2)],
)
def test_a_run_waits_for_programs_beside_the_lab(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy_looks: int, settle_s: float, wanted: bool, looks: int
) -> None:
    """A stranger uses the only processor until so many looks have seen it."""
    asked: list[Any] = []

    def facts(request: Request) -> dict[str, Any]:
        asked.append(request.body["roles"])
        at_s, busy_s = len(asked), min(len(asked) - 1, busy_looks)
        times = {"idle_s": at_s - busy_s, "steal_s": 0.0, "interrupts_s": 0.0}
        return {"roles": {}, "processors": {"0": times}, "clock_ns": at_s * 1_000_000_000, "own_cpu_s": 0.0}

    server = serve("127.0.0.1", 0, {"POST /facts": facts}, "free a port")
    monkeypatch.setattr(quiet, "LOOK_S", 0.01)
    monkeypatch.setattr(quiet, "SETTLE_S", settle_s)
    monkeypatch.setenv("LOOPLAB_ENVIRONMENT", json.dumps({"busy_wanted": wanted}))
    monkeypatch.setenv("TREATMENTS_URL", f"http://127.0.0.1:{server.server_address[1]}/facts")
    made = make(tmp_path / "results", tmp_path)
    made.wait_for_quiet()
    server.shutdown()
    server.server_close()
    # A look that named a role would set its scheduling policy.
    assert asked == [{}] * looks
    waited = [facts["what"] for event, facts in made.said if event == "waiting"]  # type: ignore[attr-defined]
    assert waited == ["programs beside the lab"] * (busy_looks > 0 and not wanted)


@pytest.mark.parametrize(
    ("slept_s", "set_s", "reasons"),
    [(0.0, 0.5, []), (12.0, 0.0, ["machine: wanted awake, found suspended for 12 s"]), (0.0, -3600.0, [])],
)
def test_a_machine_that_slept_makes_a_run_invalid(
    controller: Controller, monkeypatch: pytest.MonkeyPatch, slept_s: float, set_s: float, reasons: list[str]
) -> None:
    """A clock that was set is named alone: no figure comes from it."""
    controller.record.begin()
    real = ClockDistances.now()
    later = ClockDistances(real.suspended_s + slept_s, real.booted_s + set_s)
    monkeypatch.setattr(ClockDistances, "now", classmethod(lambda _cls: later))
    document = controller.record.document([], {"interference": [], "cells": []})
    assert document["invalid_because"] == reasons
    named = [one for one in document["treatments"] if one["what"] in ("machine", "wall clock")]
    assert len(named) == (slept_s > 1) + (abs(set_s) > 2)
    assert all("Keep the lid open" in one["note"] or "set-ntp" in one["note"] for one in named)


def roles(**number: int) -> dict[str, Any]:
    """Return a scan with so many processes of each role, the same in each scan."""
    there = {
        role: [{"pid": pid, "started_ticks": 1, "threads": []} for pid in range(count)]
        for role, count in number.items()
    }
    return {"roles": {role: {"before": found, "processes": found} for role, found in there.items()}}


def test_a_run_is_alone(controller: Controller) -> None:
    """A second run that was started beside it is seen in its scans; a load makes a run invalid that has none."""
    assert judge_process([roles(controller=1)] * 3, "controller").verified
    assert judge_process([roles(broker=2)] * 3, "broker").verified
    found = judge_process([roles(controller=2)] * 3, "controller")
    assert (found.verified, found.found) == (False, "2 at once")
    controller.scans = [None, roles(stress=0, flood=0), roles(stress=0, flood=0)]
    assert controller.faults() == []
    controller.scans.append(roles(stress=3, flood=0))
    assert controller.faults() == ["stress load: running"]
