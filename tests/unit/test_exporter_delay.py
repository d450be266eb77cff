"""Finished runs of qos-delay on the exporter's page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from simulated_delay_runs import as_published, one_way, write_delay_run

from looplab.exporter_stored import StoredRuns
from looplab.exposition import page

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def samples(runs: StoredRuns) -> Samples:
    text = page([texts for _run_id, texts in runs.newest.values()]).decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def at(found: Samples, name: str, **labels: str) -> float:
    return found[name, frozenset(labels.items())]


def test_each_cell_has_its_figures(tmp_path: Path) -> None:
    write_delay_run(tmp_path)
    write_delay_run(tmp_path, fidelity="corrected", start="20260202T000000Z", ratio=one_way)
    runs = StoredRuns(tmp_path)
    assert runs.refresh()
    found = samples(runs)
    cell = {"fidelity": "thesis", "delay_pb_ms": "20", "delay_bs_ms": "20", "qos": "2"}
    assert at(found, "qos_delay_latency_seconds", **cell, stat="avg") == pytest.approx(
        0.040 * as_published(20, 20, 2), rel=0.02
    )
    assert at(found, "qos_delay_end_to_end_seconds", **cell) == pytest.approx(0.040)
    assert at(found, "qos_delay_latency_ratio", **cell) == pytest.approx(as_published(20, 20, 2), rel=0.02)
    assert at(found, "qos_delay_packets_per_segment", **cell) == pytest.approx(8)
    assert at(found, "qos_delay_messages_total", **cell, outcome="answered") == 600
    corrected = {**cell, "fidelity": "corrected", "stat": "avg"}
    assert at(found, "qos_delay_latency_seconds", **corrected) == pytest.approx(0.120, rel=0.02)
    assert at(found, "loop_run_valid", scenario="qos-delay", fidelity="corrected") == 1


def test_an_invalid_cell_and_a_damaged_run_are_left_out(tmp_path: Path) -> None:
    write_delay_run(tmp_path, cell_changes={(20, 20, 2): {"valid": False, "invalid_because": ["no emulator"]}})
    folder = write_delay_run(tmp_path, fidelity="corrected", start="20260202T000000Z")
    run = json.loads((folder / "run.json").read_text())
    del run["cells"][0]["L_us"]
    (folder / "run.json").write_text(json.dumps(run))
    said: list[str] = []
    runs = StoredRuns(tmp_path, said.append)
    runs.refresh()
    found = samples(runs)
    assert runs.damaged == {folder.name}
    assert len(said) == 1
    cells = {labels for name, labels in found if name == "qos_delay_end_to_end_seconds"}
    assert len(cells) == 29
    assert not any({("delay_pb_ms", "20"), ("delay_bs_ms", "20"), ("qos", "2")} <= labels for labels in cells)
