"""Every kind of bad input on the command line itself: ./lab report names it, says what it means, and goes on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from support.places import ROOT
from support.simulated_runs import MACHINE, nine_scenarios, simulated_cell, write_run

OLDER, NEWER = "20260101T000000Z", "20260202T000000Z"


def lab(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "looplab.lab.cli", *words],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "LAB_ROOT": str(root)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def put(results: Path, scenario: str, start: str = NEWER, *, size: tuple[int, int] = (4, 25), **rest: object) -> Path:
    cells = {(20.0, 0): simulated_cell(np.random.default_rng(3), *size, 900, 4290)}
    return write_run(results, scenario, start=start, cells=cells, **rest)  # type: ignore[arg-type]


def cut_in_half(folder: Path) -> None:
    samples = (folder / "samples.csv").read_bytes()
    (folder / "samples.csv").write_bytes(samples[: len(samples) // 2])


# What is put beside nine sound runs: scenario, start, what is odd about it, the words that say what it means.
ODD: tuple[tuple[str, str, Callable[[Path, str, str], object], str], ...] = (
    ("scenario1", "20260301T000001Z", lambda r, s, t: (r / f"{t}-{s}").mkdir(), "neither run.json nor samples.csv"),
    (
        "scenario1",
        "20260301T000002Z",
        lambda r, s, t: (put(r, s, t) / "run.json").write_text("{"),
        "run.json cannot be read",
    ),
    ("scenario1", "20260301T000003Z", lambda r, s, t: (put(r, s, t) / "run.json").unlink(), "The run never ended"),
    ("scenario1", "20260301T000004Z", lambda r, s, t: cut_in_half(put(r, s, t)), "It was cut short or edited"),
    ("scenario1", "20260301T000005Z", lambda r, s, t: put(r, s, t, changes={"schema": 2}), "update the lab to read it"),
    (
        "scenario1",
        "20260301T000006Z",
        lambda r, s, t: put(r, s, t, changes={"experiment": "something-else"}),
        "of the experiment something-else, left to its own report",
    ),
    ("scenario2", NEWER, lambda r, s, t: put(r, s, t, size=(1, 100)), "Too few repetitions for intervals"),
    ("scenario3", NEWER, lambda r, s, t: put(r, s, t, lost={(20.0, 0): 100}), "none of 100 messages was answered"),
    (
        "scenario4",
        NEWER,
        lambda r, s, t: put(r, s, t, changes={"environment": {**MACHINE, "cores": 64}}),
        "the runs are of different machines",
    ),
    (
        "scenario5",
        NEWER,
        lambda r, s, t: put(r, s, t, parameters={"tcp_nodelay": True}),
        "the runs differ in TCP_NODELAY too",
    ),
    (
        "scenario6",
        NEWER,
        lambda r, s, t: put(r, s, t, changes={"valid": False, "invalid_because": ["no stress ran"]}),
        "INVALID: no stress ran",
    ),
)


def test_odd_input_is_named_with_what_it_means_and_the_rest_is_reported(tmp_path: Path) -> None:
    results = tmp_path / "results"
    nine_scenarios(results, repetitions=3, messages=20)
    for scenario, start, make, _ in ODD:
        make(results, scenario, start)
    done = lab(tmp_path, "report")
    assert (done.returncode, done.stderr) == (0, "")
    page, runs = (tmp_path / "report/index.html").read_text(), (tmp_path / "report/runs.csv").read_text()
    for scenario, start, _, words in ODD:
        assert words in page, f"{start}: {words}"
        assert f"{start}-{scenario}" in page
        assert f"{start}-{scenario}" in runs
    # What is odd about the newest runs of scenario 1 leaves the sound one in use.
    assert f"{OLDER}-scenario1,scenario1,thesis,yes,valid" in runs


def test_a_missing_run_is_named_and_no_report_is_left(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    done = lab(tmp_path, "report", "20260101T000000Z-scenario5")
    assert done.returncode == 2
    assert "There is no run '20260101T000000Z-scenario5'" in done.stderr
    assert not (tmp_path / "report").exists()
    empty = lab(tmp_path, "report")
    assert empty.returncode == 1
    assert "0 run(s)" in empty.stdout
