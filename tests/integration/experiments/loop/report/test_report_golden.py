"""The whole report over every stored run: real runs, made by the lab itself in its first weeks (schema 1)."""

import shutil
from pathlib import Path

import pytest
from support.places import STORED_RUNS
from support.reports import write
from support.tables import rows

from looplab.experiments.loop import EXPERIMENT, thesis_tables
from looplab.experiments.registry import EXPERIMENTS
from looplab.report import claims
from looplab.report.stored import StoredRun, read_run


@pytest.fixture(scope="module")
def stored_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stored runs as a results/, for tests that only read."""
    return Path(shutil.copytree(STORED_RUNS, tmp_path_factory.mktemp("stored") / "results"))


@pytest.fixture(scope="module")
def report(stored_runs: Path) -> Path:
    """Written once, only read by the tests."""
    out = stored_runs.parent / "out"
    assert write(stored_runs, out) == 0
    return out


def test_an_interval_that_is_open_is_shown_as_such(report: Path) -> None:
    """Of 200 messages p99 has no upper end: the page says ∞, the CSV inf."""
    p99 = [row for row in rows(report / "tables.csv") if row["p99_us"]]
    assert p99
    assert all(row["p99_high_us"] == "inf" for row in p99)
    assert "… ∞" in (report / "index.html").read_text()


def test_the_tables_hold_published_and_measured_figures(report: Path, stored_runs: Path) -> None:
    table = rows(report / "tables.csv")
    for line in thesis_tables.rows():
        key = {"scenario": line.scenario, "interval_ms": f"{line.interval_ms:g}", "qos": str(line.qos)}
        found = [row for row in table if key.items() <= row.items()]
        assert {row["metric"] for row in found} == {"T", "R", "O"}
        if line.outcome == "answered":
            assert any(row["published_avg_us"] == f"{line.latency_us['T_avg']:.3f}" for row in found)
        else:
            assert {row["published_outcome"] for row in found} == {line.outcome}
    runs = [run for path in stored_runs.iterdir() if isinstance(run := read_run(path, EXPERIMENTS), StoredRun)]
    cells = {
        (run.run_id, f"{cell['interval_ms']:g}", str(cell["qos"])): cell
        for run in runs
        for cell in run.document["cells"]
    }
    measured = [row for row in table if row["run_id"] and row["mean_us"]]
    for row in measured:
        told = cells[row["run_id"], row["interval_ms"], row["qos"]][f"{row['metric']}_us"]
        for name in ("avg", "min", "max", "p50", "p99"):
            column = "mean_us" if name == "avg" else f"{name}_us"
            assert float(row[column]) == pytest.approx(told[name], abs=0.002), (row["run_id"], name)
        if row["mean_low_us"]:
            assert float(row["mean_low_us"]) <= float(row["mean_us"]) <= float(row["mean_high_us"])
    assert len(measured) == 42


# Claim, fidelity and statistic: both sides in us, of one run each, and the share.
GOLDEN = {
    ("stress", "thesis", "O mean"): (794.847, 23032.76, 27.9776),
    ("stress", "thesis", "O p95"): (1222.149, 108367.397, 87.6696),
    ("stress", "thesis", "response p95"): (6060.599, 155976.574, 24.7362),
    ("stress-spares-robot", "thesis", "R mean"): (4213.582, 4412.418, 0.0472),
    ("qos-priority", "thesis", "O mean"): (911.236, 37804.35, 40.4869),
    ("qos-2", "thesis", "O mean"): (37804.35, 49395.973, 0.3066),
    ("qos-2", "thesis", "O p95"): (58076.264, 96294.332, 0.6581),
    ("qos-2", "thesis", "response p95"): (62830.399, 100805.252, 0.6044),
    ("qos-2", "corrected", "O mean"): (10491.632, 8648.938, -0.1756),
    ("qos-2", "corrected", "O p95"): (60685.45, 32889.432, -0.458),
    ("qos-2", "corrected", "response p95"): (66026.423, 36925.498, -0.4407),
}


def test_the_verdicts_are_those_of_the_day_the_runs_were_stored(report: Path) -> None:
    verdicts = rows(report / "verdicts.csv")
    assert {row["fidelity"] for row in verdicts} == {"thesis", "corrected"}
    assert {row["claim"] for row in verdicts} == {row.name for row in claims.rows(EXPERIMENT)}
    assert all(len(row["reason"]) > 10 for row in verdicts)
    decided = {
        (row["claim"], row["fidelity"]): row["verdict"] for row in verdicts if not row["reason"].startswith("not run")
    }
    of_scenario_8 = ("flood-qos-0", "flood-qos-1-2", "qos-2", "qos-priority", "client-waits")
    others = ("stress", "loss-10-ms", "stress-spares-robot", "stress-median", "stress-varies", "robot-third")
    both = [(claim, fidelity) for claim in of_scenario_8 for fidelity in ("thesis", "corrected")]
    assert decided == dict.fromkeys([*both, *((claim, "thesis") for claim in others)], "no verdict")
    names = ("before", "after", "value")
    found = {
        key: tuple(float(row[name]) for name in names)
        for row in verdicts
        if (key := (row["claim"], row["fidelity"], row["figure"])) in GOLDEN
    }
    assert found.keys() == GOLDEN.keys()
    for key, figures in GOLDEN.items():
        assert found[key] == pytest.approx(figures, rel=1e-6), key
