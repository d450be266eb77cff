"""Runs of twin on the exporter's page: the running one with its queue, finished ones with their figures."""

import json
from collections.abc import Iterable
from pathlib import Path
from time import perf_counter_ns

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.simulated_twin_runs import Truth, single, write_twin_run

from looplab.experiments.registry import EXPERIMENTS
from looplab.experiments.twin.metrics import twin_labels
from looplab.experiments.twin.parameters import Cell
from looplab.exporter.live import LiveFolder
from looplab.exporter.parts import all_families
from looplab.exporter.stored import StoredRuns
from looplab.metrics.text_format import Texts, page
from looplab.run.samples import ANSWERED, ROBOT_ERROR, WAITING, SampleStore

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def samples(parts: Iterable[Texts]) -> Samples:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(page(parts, all_families(EXPERIMENTS)).decode())
        for sample in family.samples
    }


def at(found: Samples, name: str, **labels: str) -> float:
    return found[name, frozenset(labels.items())]


def labels(cell: Cell, scenario: str = "twin", fidelity: str = "thesis") -> dict[str, str]:
    return twin_labels({"scenario": scenario, "fidelity": fidelity}, {**vars(cell), "repetition": cell.iteration})


def test_a_finished_run_has_its_figures(tmp_path: Path) -> None:
    slow = single(10, lost=2, refused=1, more={"limit_per_s": 14.8, "limited_by": "instance"})
    several = Truth(Cell(10, 2, "central", "copy", 1, 1), 0.05, (1.0, 2.0))
    write_twin_run(tmp_path, [slow, several])
    runs = StoredRuns(tmp_path, EXPERIMENTS)
    assert runs.refresh()
    assert not runs.damaged
    found = samples(texts for _run_id, texts in runs.newest.values())
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
    run = json.loads((folder / "run.json").read_text())
    del run["cells"][0]["storage_delay_us"]
    (folder / "run.json").write_text(json.dumps(run))
    runs = StoredRuns(tmp_path, EXPERIMENTS)
    runs.refresh()
    assert runs.damaged == {folder.name}
    assert len(capsys.readouterr().err.splitlines()) == 1
    found = samples(texts for _run_id, texts in runs.newest.values())
    assert [name for name, _held in found].count("twin_queue_max") == 1


def test_the_running_cell_has_its_queue(tmp_path: Path) -> None:
    """Of six messages sent three are stored and one is refused: two wait."""
    cells = [Cell(100, 1, "single", "published", 1, 0), Cell(10, 1, "single", "published", 1, 0)]
    store = SampleStore(16, tmp_path / "samples.bin", ("copies",))
    now = perf_counter_ns()
    states = [ANSWERED] * 8 + [ANSWERED, ANSWERED, ANSWERED, ROBOT_ERROR, WAITING, WAITING]
    for row, state in enumerate(states):
        store["due_ns"][row], store["sent_ns"][row] = now, now + 10_000
        store["state"][row] = state
        if state == ANSWERED:
            store["received_ns"][row] = now + 10_000 + 60_000_000
    parameters = {
        "scenario": "twin", "fidelity": "thesis", "intervals_ms": [100, 10], "messages": 8, "repetitions": 1,
        "deadline_ms": 300_000, "cells": [vars(cell) for cell in cells],
    }  # fmt: skip
    state = {
        "experiment": "twin", "state": "running", "run_id": "20260301T000000Z-twin", "parameters": parameters,
        "treatments": [],
    }  # fmt: skip
    (tmp_path / "state.json").write_text(json.dumps(state))
    live = LiveFolder(tmp_path, EXPERIMENTS)
    run = live.run(frozenset())
    assert run is not None
    found = samples([live.texts(run)])
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
