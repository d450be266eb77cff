"""Finished runs of qos-delay on the exporter's page."""

from pathlib import Path

import pytest
from support.exposition import at, running, stored
from support.run_files import answer_at_once, begin, edited
from support.simulated_delay_runs import as_published, one_way, write_delay_run

from looplab.experiments.qos_delay.metrics import delay_labels
from looplab.run.samples import SampleStore


def labels(pb: float, bs: float, qos: int, fidelity: str = "thesis") -> dict[str, str]:
    return delay_labels(fidelity, pb, bs, qos)


def test_each_cell_has_its_figures(tmp_path: Path) -> None:
    write_delay_run(tmp_path)
    write_delay_run(tmp_path, fidelity="corrected", start="20260202T000000Z", ratio=one_way)
    found = stored(tmp_path)
    cell = labels(20, 20, 2)
    assert at(found, "qos_delay_latency_mean_seconds", **cell) == pytest.approx(
        0.040 * as_published(20, 20, 2), rel=0.02
    )
    assert at(found, "qos_delay_end_to_end_seconds", **cell) == pytest.approx(0.040)
    assert at(found, "qos_delay_latency_ratio", **cell) == pytest.approx(as_published(20, 20, 2), rel=0.02)
    assert at(found, "qos_delay_packets_per_segment", **cell) == pytest.approx(8)
    assert at(found, "qos_delay_messages_total", **cell, outcome="answered") == 600
    assert at(found, "qos_delay_latency_quantile_seconds", **cell, metric="L", q="0.5") == pytest.approx(
        0.040 * as_published(20, 20, 2), rel=0.03
    )
    corrected = {**cell, "fidelity": "corrected"}
    assert at(found, "qos_delay_latency_mean_seconds", **corrected) == pytest.approx(0.120, rel=0.02)
    assert at(found, "loop_run_valid", scenario="qos-delay", fidelity="corrected") == 1


def test_an_invalid_cell_and_a_damaged_run_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_delay_run(tmp_path, cell_changes={(20, 20, 2): {"valid": False, "invalid_because": ["no emulator"]}})
    folder = write_delay_run(tmp_path, fidelity="corrected", start="20260202T000000Z")
    with edited(folder) as run:
        del run["cells"][0]["L_us"]
    found = stored(tmp_path, folder)
    assert len(capsys.readouterr().err.splitlines()) == 1
    cells = [held for name, held in found if name == "qos_delay_end_to_end_seconds"]
    assert len(cells) == 29
    assert frozenset(labels(20, 20, 2).items()) not in cells


def test_the_running_cell_has_a_distribution_the_others_figures(tmp_path: Path) -> None:
    parameters = {
        "scenario": "qos-delay", "fidelity": "corrected", "pairs_ms": [[2, 18], [20, 20]], "qos": [0, 1],
        "intervals_ms": [10], "messages": 4, "repetitions": 1, "deadline_ms": 5000,
    }  # fmt: skip
    store = SampleStore(16, tmp_path / "samples.bin")
    answer_at_once(store, [20_000_000] * 4 + [40_000_000] * 2)
    begin(tmp_path, "qos-delay", "20260301T000000Z-qos-delay", parameters)
    found = running(tmp_path)
    first, second = labels(2, 18, 0, "corrected"), labels(20, 20, 0, "corrected")
    assert at(found, "qos_delay_messages_sent_total", **first) == 4
    assert at(found, "qos_delay_latency_mean_seconds", **first) == pytest.approx(0.020)
    assert at(found, "qos_delay_latency_mean_seconds", **second) == pytest.approx(0.040)
    assert at(found, "qos_delay_cell_current", **first) == 0
    assert at(found, "qos_delay_cell_current", **second) == 1
    assert at(found, "qos_delay_latency_seconds_count", **second, metric="L") == 2
    assert ("qos_delay_latency_seconds_count", frozenset({**first, "metric": "L"}.items())) not in found
    assert at(found, "loop_run_messages_planned", scenario="qos-delay", fidelity="corrected") == 16
