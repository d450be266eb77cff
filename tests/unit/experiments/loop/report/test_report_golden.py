"""The whole report over every stored run: real runs, made by the lab itself in its first weeks (schema 1)."""

import json
import os
import re
from pathlib import Path

import pytest
from support.reports import Page, rows, write
from support.simulated_runs import nine_scenarios

from looplab.experiments.loop.report import published
from looplab.experiments.registry import EXPERIMENTS
from looplab.report import painters
from looplab.report.stored import StoredRun, read_run


@pytest.fixture(scope="module")
def report(stored_runs: Path) -> Path:
    """Written once, only read by the tests."""
    out = stored_runs.parent / "out"
    assert write(stored_runs, out) == 0
    return out


def test_what_many_runs_have_in_common_is_said_once(report: Path) -> None:
    words = " ".join(Page(report / "index.html").words)
    assert words.count("The schedule itself was disturbed") == 1
    assert "so wider intervals: 8 in all of them." in words
    assert words.count("The machine was busy before the run") == 1


def test_an_interval_that_is_open_is_shown_as_such(report: Path) -> None:
    """Of 200 messages p99 has no upper end: the page says ∞, the CSV inf."""
    p99 = [row for row in rows(report / "tables.csv") if row["p99_us"]]
    assert p99
    assert all(row["p99_high_us"] == "inf" for row in p99)
    assert "… ∞" in (report / "index.html").read_text()


def test_every_figure_has_a_text_that_says_what_it_shows(report: Path) -> None:
    alternatives = Page(report / "index.html").alternatives
    assert len(alternatives) == 8
    assert all(re.search(r"half of \d+ messages below [\d.]+ ms", text) for text in alternatives)
    assert len(list((report / "figures").glob("*.svg"))) == len(alternatives)
    for figure in (report / "figures").glob("*.png"):
        assert figure.read_bytes().startswith(b"\x89PNG")


def test_every_run_is_used_or_named(report: Path, stored_runs: Path) -> None:
    page = (report / "index.html").read_text()
    states = {row["run_id"]: row["state"] for row in rows(report / "runs.csv")}
    assert sorted(states) == sorted(folder.name for folder in stored_runs.iterdir())
    assert sorted(states.values()) == ["interrupted", "valid", "valid", "valid", "valid"]
    assert all(run_id in page for run_id in states)


def test_the_tables_hold_the_published_figures_and_those_of_run_json(report: Path, stored_runs: Path) -> None:
    table = rows(report / "tables.csv")
    for line in published.rows():
        key = {"scenario": line.scenario, "interval_ms": f"{line.interval_ms:g}", "qos": str(line.qos)}
        found = [row for row in table if key.items() <= row.items()]
        assert {row["metric"] for row in found} == {"T", "R", "O"}
        if line.outcome == "answered":
            assert any(row["published_avg_us"] == f"{line.latency_us['T_avg']:.3f}" for row in found)
        else:
            assert {row["published_outcome"] for row in found} == {line.outcome}
    runs = {
        run.run_id: run for path in stored_runs.iterdir() if isinstance(run := read_run(path, EXPERIMENTS), StoredRun)
    }
    checked = 0
    for row in table:
        if not row["run_id"] or not row["mean_us"]:
            continue
        cells = runs[row["run_id"]].document["cells"]
        cell = next(c for c in cells if (f"{c['interval_ms']:g}", str(c["qos"])) == (row["interval_ms"], row["qos"]))
        told = cell[f"{row['metric']}_us"]
        for name, column in (
            ("avg", "mean_us"),
            ("min", "min_us"),
            ("max", "max_us"),
            ("p50", "p50_us"),
            ("p99", "p99_us"),
        ):
            assert float(row[column]) == pytest.approx(told[name], abs=0.002), (row["run_id"], name)
        if row["mean_low_us"]:
            assert float(row["mean_low_us"]) <= float(row["mean_us"]) <= float(row["mean_high_us"])
        checked += 1
    assert checked == 42


# Claim, fidelity and statistic: both sides in us, the share with its interval, p.
GOLDEN = {
    ("stress", "thesis", "mean"): (794.847, 23139.881, 28.1124, 15.5693, 50.1506, 0.0005),
    ("stress", "thesis", "p50"): (707.478, 13718.961, 18.3914, 8.8177, 37.3006, 0.0005),
    ("stress", "thesis", "p95"): (1226.625, 70523.072, 56.4936, 35.2161, 90.2719, 0.0005),
    ("qos-2", "thesis", "mean"): (37804.35, 49395.973, 0.3066, 0.1248, 0.5178, 0.0005),
    ("qos-2", "thesis", "p50"): (35955.675, 48293.94, 0.3432, 0.1724, 0.5388, 0.0015),
    ("qos-2", "thesis", "p95"): (57754.897, 80611.637, 0.3958, 0.0868, 0.7925, 0.0275),
    ("qos-2", "corrected", "mean"): (10491.632, 8648.938, -0.1756, -0.6996, 1.2619, 0.7686),
    ("qos-2", "corrected", "p50"): (3544.282, 3525.707, -0.0052, -0.7949, 3.8235, 0.995),
    ("qos-2", "corrected", "p95"): (34497.559, 39239.424, 0.1375, -0.6269, 2.4673, 0.8196),
}


def test_the_verdicts_are_those_of_the_day_the_runs_were_stored(report: Path) -> None:
    verdicts = rows(report / "verdicts.csv")
    assert {row["fidelity"] for row in verdicts} == {"thesis", "corrected"}
    assert len({row["claim"] for row in verdicts}) == 11
    assert all(len(row["reason"]) > 10 for row in verdicts)
    decided = {(row["claim"], row["fidelity"]): row["verdict"] for row in verdicts if row["verdict"] != "not run"}
    assert decided == {
        ("stress", "thesis"): "reproduced",
        ("loss-10-ms", "thesis"): "undecided",
        ("flood-qos-0", "thesis"): "undecided",
        ("flood-qos-0", "corrected"): "undecided",
        ("flood-qos-1-2", "thesis"): "undecided",
        ("flood-qos-1-2", "corrected"): "undecided",
        ("qos-2", "thesis"): "reproduced",
        ("qos-2", "corrected"): "undecided",
    }
    names = ("before_us", "after_us", "share", "share_low", "share_high", "p_value")
    found = {
        (row["claim"], row["fidelity"], row["statistic"]): tuple(float(row[name]) for name in names)
        for row in verdicts
        if row["statistic"]
    }
    assert found.keys() == GOLDEN.keys()
    for key, figures in GOLDEN.items():
        assert found[key] == pytest.approx(figures, rel=1e-6), key


def test_the_same_runs_give_the_same_report(stored_runs: Path, report: Path) -> None:
    again = stored_runs.parent / "again"
    write(stored_runs, again)
    for name in ("tables.csv", "verdicts.csv", "figures.csv"):
        assert (report / name).read_bytes() == (again / name).read_bytes()
    for figure in (report / "figures").glob("*.svg"):
        assert figure.read_bytes() == (again / "figures" / figure.name).read_bytes()


def test_the_stored_runs_are_small_and_of_the_first_schema(stored_runs: Path) -> None:
    sizes = [path.stat().st_size for path in stored_runs.rglob("*") if path.is_file()]
    assert sum(sizes) < 400_000
    documents = [json.loads(path.read_text()) for path in stored_runs.glob("*/run.json")]
    assert len(documents) == 4
    assert {document["schema"] for document in documents} == {1}
    # From before these were recorded.
    assert not any("waited" in cell for document in documents for cell in document["cells"])


def test_painters_that_die_cost_time_and_nothing_else(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nine_scenarios(results, repetitions=3, messages=20)
    together, alone = results.parent / "together", results.parent / "alone"
    assert write(results, together) == 0
    monkeypatch.setattr(painters, "_get_ready", os.abort)
    assert write(results, alone) == 0
    drawn = sorted(path.name for path in (together / "figures").iterdir())
    assert len(drawn) == 20
    for name in drawn:
        assert (together / "figures" / name).read_bytes() == (alone / "figures" / name).read_bytes()
