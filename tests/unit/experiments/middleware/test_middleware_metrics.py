"""Runs of the middleware on the exporter's page: stored ones, and the running one from its live state."""

from pathlib import Path

import numpy as np
import pytest
from support import exposition
from support.exposition import Samples, samples, stored, text
from support.run_files import begin, edited
from support.simulated_middleware_runs import by_cores, trial, write_middleware_run

from looplab.experiments.middleware.cells import Cell
from looplab.experiments.middleware.document import live
from looplab.experiments.registry import EXPERIMENTS
from looplab.exporter.live import LiveFolder, StatedRun
from looplab.lab.watch.data import parse

CELL = Cell(True, True, 2, 1, 60)
LABELS = {
    **{"scenario": "middleware-nodes", "fidelity": "thesis", "placement": "2 nodes x 1 core, balancer"},
    **{"nodes": "2", "cores": "1", "where": "balancer", "devices": "60"},
}


def at(found: Samples, name: str, **more: str) -> float:
    return exposition.at(found, name, **LABELS, **more)


def test_each_cell_of_a_stored_run_has_its_figures(tmp_path: Path) -> None:
    write_middleware_run(tmp_path, "middleware-nodes", cells=[CELL, Cell(True, False, 1, 2, 150)], repetitions=2)
    found = stored(tmp_path)
    assert at(found, "middleware_messages_sent_total") == 2 * 240
    assert at(found, "middleware_messages_total", outcome="succeeded") == 2 * 240
    assert at(found, "middleware_processed_per_second") == pytest.approx(120)
    assert at(found, "middleware_failed_ratio") == 0
    assert at(found, "middleware_latency_quantile_seconds", metric="server", q="0.5") == pytest.approx(0.0067, rel=0.2)
    assert at(found, "middleware_cpu_seconds_per_request") == pytest.approx(0.0015)
    assert at(found, "middleware_memory_bytes", when="start") == 2 * 100 * 2**20
    assert at(found, "middleware_service_memory_bytes", service="http") == 2 * 60 * 2**20
    other = {**LABELS, "placement": "2 cores, container", "nodes": "1", "cores": "2", "where": "container"}
    other["devices"] = "150"
    assert found["middleware_failures_total", frozenset({**other, "cause": "timeout"}.items())] > 0


def test_an_invalid_cell_is_left_out(tmp_path: Path) -> None:
    folder = write_middleware_run(tmp_path, "middleware-nodes", cells=[CELL], repetitions=1)
    with edited(folder) as run:
        run["cells"][0]["valid"] = False
    assert not any(name.startswith("middleware_") for name, _ in stored(tmp_path))


def test_the_running_run_is_followed_from_its_state(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    run_id, parameters = "20260301T000000Z-middleware-nodes", {"scenario": "middleware-nodes", "messages": 2}
    folder = LiveFolder(tmp_path, EXPERIMENTS)
    begin(tmp_path, "middleware", run_id, parameters)
    run = folder.run(frozenset())
    assert isinstance(run, StatedRun)
    assert not any(name.startswith("middleware_") for name in folder.texts(run))
    first, second = (trial(CELL, at, rng, by_cores, 1.0) for at in (0, 1))
    for done, running in (([], first), ([first], second)):
        begin(tmp_path, "middleware", run_id, parameters, **live(480, done, running))
        run = folder.run(frozenset())
        assert run is not None
        assert run.active
        found = samples([folder.texts(run)])
        assert at(found, "middleware_messages_total", outcome="succeeded") == 240 * (len(done) + 1)
        assert at(found, "middleware_latency_seconds_count", metric="response") == 240 * (len(done) + 1)
        assert at(found, "middleware_cell_current") == 1
    median_s = at(found, "middleware_latency_quantile_seconds", metric="response", q="0.5")
    buckets = sorted(
        (float(dict(labels)["le"]), count) for (name, labels), count in found.items() if name.endswith("_bucket")
    )
    assert next(le for le, count in buckets if count >= 240) == pytest.approx(median_s, rel=0.06)
    assert folder.run(frozenset({run_id})) is None

    view = parse(text([folder.texts(run)]))
    assert (view.experiment, view.current) == ("middleware", ("2 nodes x 1 core, balancer", "60"))
    assert view.cells[view.current].sent == view.planned == 480
    assert view.cells[view.current].outcomes == {"succeeded": 480, "failed": 0, "unfinished": 0}
