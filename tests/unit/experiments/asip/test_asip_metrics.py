"""Runs of asip on the exporter's page, running and finished."""

from pathlib import Path
from time import perf_counter_ns

import pytest
from support import exposition
from support.exposition import Samples
from support.run_files import begin
from support.simulated_asip_runs import WIRE_US, as_published, near_the_wire, write_latency_run, write_throughput_run

from looplab.experiments.asip.document import COLUMNS
from looplab.experiments.asip.metrics import cell_labels
from looplab.run.samples import ANSWERED, SampleStore


def labels(scenario: str, language: str, transport: str) -> dict[str, str]:
    return cell_labels(scenario, "thesis", (language, transport, "one"), 0)


def at(found: Samples, name: str, held: dict[str, str], **more: str) -> float:
    return exposition.at(found, name, **held, **more)


def test_stored_cells_have_their_figures(tmp_path: Path) -> None:
    write_latency_run(tmp_path, lost=3)
    write_throughput_run(tmp_path)
    found = exposition.stored(tmp_path)
    cell = labels("asip", "java", "tcp")
    mean_s = at(found, "asip_latency_mean_seconds", cell, metric="latency")
    assert mean_s == pytest.approx(near_the_wire("java", "tcp", "one") / 1e6, rel=0.01)
    assert at(found, "asip_latency_mean_seconds", cell, metric="edge") == pytest.approx(mean_s - 60e-6, rel=0.01)
    assert at(found, "asip_wire_seconds", cell) == pytest.approx(WIRE_US / 1e6)
    assert at(found, "asip_messages_total", cell, outcome="lost") == 3
    wave = labels("asip-throughput", "python", "serial")
    tracked = at(found, "asip_tracked_hz", wave)
    assert as_published("python", "serial", "one") * 0.99 <= tracked <= as_published("python", "serial", "one")
    assert at(found, "asip_step_tracked_ratio", wave, frequency_hz=f"{tracked:.4g}") == 1
    assert at(found, "asip_step_tracked_ratio", wave, frequency_hz="200") == pytest.approx(0.45, abs=0.01)


def live(folder: Path, scenario: str, rows: list[dict[str, int]]) -> Samples:
    """What the exporter shows of a run that wrote these rows."""
    parameters = {
        "scenario": scenario, "fidelity": "thesis", "languages": ["python", "java"], "transports": ["serial", "mqtt"],
        "placements": ["one", "broker"], "qos": 0, "messages": 2, "repetitions": 1, "deadline_ms": 1000,
        "intervals_ms": [40],
    }  # fmt: skip
    # Of the six cells, two are those of a broker elsewhere: MQTT alone.
    store = SampleStore(12, folder / "samples.bin", COLUMNS)
    for row, values in enumerate(rows):
        for name, value in values.items():
            store[name][row] = value
    begin(folder, "asip", f"20260401T000000Z-{scenario}", parameters)
    return exposition.running(folder)


def test_a_running_latency_run_has_the_distribution_of_its_current_cell(tmp_path: Path) -> None:
    now = perf_counter_ns()
    row = {"due_ns": now, "sent_ns": now, "received_ns": now + 4_000_000, "state": ANSWERED}
    found = live(tmp_path, "asip", [row, row, row])
    assert at(found, "asip_latency_mean_seconds", labels("asip", "python", "mqtt"), metric="latency") == 0.004
    assert at(found, "asip_messages_sent_total", labels("asip", "python", "serial")) == 2
    assert at(found, "asip_cell_current", labels("asip", "python", "mqtt")) == 1
    assert at(found, "asip_latency_seconds_count", labels("asip", "python", "mqtt"), metric="latency") == 1
    assert at(found, "loop_run_messages_planned", {"scenario": "asip", "fidelity": "thesis"}) == 12


def test_a_running_bisection_shows_the_frequency_tracked_so_far(tmp_path: Path) -> None:
    now = perf_counter_ns()
    step = {"due_ns": now, "sent_ns": now, "received_ns": now, "edges_in": 400, "edges_out": 400, "state": ANSWERED}
    found = live(tmp_path, "asip-throughput", [{**step, "frequency_uhz": hz * 1_000_000} for hz in (100, 150)])
    assert at(found, "asip_tracked_hz", labels("asip-throughput", "python", "serial")) == 150
    assert at(found, "asip_step_tracked_ratio", labels("asip-throughput", "python", "serial"), frequency_hz="100") == 1
