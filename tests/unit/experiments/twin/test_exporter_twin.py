"""Runs of twin on the exporter's page: the running one with its queue, finished ones with their figures."""

from pathlib import Path

import pytest
from support.exposition import at, running, stored
from support.run_files import answer_at_once, begin, edited
from support.simulated_twin_runs import Truth, single, write_twin_run

from looplab.experiments.twin.metrics import twin_labels
from looplab.experiments.twin.parameters import Cell
from looplab.run.samples import ROBOT_ERROR, WAITING, SampleStore


def labels(cell: Cell, scenario: str = "twin", fidelity: str = "thesis") -> dict[str, str]:
    return twin_labels({"scenario": scenario, "fidelity": fidelity}, {**vars(cell), "repetition": cell.iteration})


def test_a_finished_run_has_its_figures(tmp_path: Path) -> None:
    slow = single(10, lost=2, refused=1, more={"limit_per_s": 14.8, "limited_by": "instance"})
    several = Truth(Cell(10, 2, "central", "copy", 1, 1), 0.05, (1.0, 2.0))
    write_twin_run(tmp_path, [slow, several])
    found = stored(tmp_path)
    first, second = labels(slow.cell), labels(several.cell)
    assert at(found, "twin_messages_total", **first, outcome="stored") == 197
    assert at(found, "twin_messages_total", **first, outcome="lost") == 2
    assert at(found, "twin_messages_total", **first, outcome="refused") == 1
    assert at(found, "twin_rate_out_per_second", **first) == pytest.approx(14.85)
    assert at(found, "twin_queue_max", **first) == pytest.approx(170, abs=3)
    assert at(found, "twin_limit_per_second", **first, limited_by="instance") == 14.8
    assert second["cell"] == "10 ms, 2 central, copy, #2"
    assert at(found, "twin_broker_rate_per_second", **second, broker="1") == pytest.approx(20)
    assert at(found, "twin_broker_rate_per_second", **second, broker="2") == pytest.approx(10)
    assert at(found, "twin_latency_quantile_seconds", **second, metric="S", q="1") == pytest.approx(8.02, abs=0.01)
    assert at(found, "loop_run_valid", scenario="twin", fidelity="thesis") == 1


def test_an_invalid_cell_and_a_damaged_run_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_twin_run(tmp_path, [single(10), single(20, faults=["gone"])])
    folder = write_twin_run(tmp_path, [single(10)], fidelity="corrected", start="20260601T000000Z")
    with edited(folder) as run:
        del run["cells"][0]["storage_delay_us"]
    found = stored(tmp_path, folder)
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert [name for name, _held in found].count("twin_queue_max") == 1


def test_the_running_cell_has_its_queue(tmp_path: Path) -> None:
    """Of six messages sent three are stored and one is refused: two wait."""
    cells = [Cell(100, 1, "single", "published", 1, 0), Cell(10, 1, "single", "published", 1, 0)]
    store = SampleStore(16, tmp_path / "samples.bin", ("copies",))
    answer_at_once(store, [60_000_000] * (8 + 3))
    for row, state in enumerate((ROBOT_ERROR, WAITING, WAITING), 8 + 3):
        store["due_ns"][row] = store["sent_ns"][row] = store["sent_ns"][0]
        store["state"][row] = state
    parameters = {
        "scenario": "twin", "fidelity": "thesis", "intervals_ms": [100, 10], "messages": 8, "repetitions": 1,
        "deadline_ms": 300_000, "cells": [vars(cell) for cell in cells],
    }  # fmt: skip
    begin(tmp_path, "twin", "20260301T000000Z-twin", parameters)
    found = running(tmp_path)
    first, second = (labels(cell) for cell in cells)
    assert at(found, "twin_queue_length", **first) == 0
    assert at(found, "twin_queue_length", **second) == 2
    assert at(found, "twin_messages_total", **second, outcome="stored") == 3
    assert at(found, "twin_messages_total", **second, outcome="refused") == 1
    assert at(found, "twin_cell_current", **first) == 0
    assert at(found, "twin_cell_current", **second) == 1
    assert at(found, "twin_latency_seconds_count", **second, metric="S") == 3
    assert ("twin_latency_seconds_count", frozenset({**first, "metric": "S"}.items())) not in found
    assert at(found, "loop_run_messages_planned", scenario="twin", fidelity="thesis") == 16
