"""Whatever lies in results/: each folder is used or named with what it means, and nothing crashes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.simulated_runs import simulated_cell, write_run
from support.terminal import printing_to_a_terminal

from looplab.errors import LabError
from looplab.experiments.loop.report.cells import read_cells
from looplab.experiments.loop.report.command import write_report
from looplab.report.stored import StoredRun, Unusable, read_run, select
from looplab.run.accounting import summarise

Spoil = Callable[[Path], object]


def small_run(results: Path, start: str = "20260101T000000Z", **changes: Any) -> Path:
    rng = np.random.default_rng(1)
    return write_run(
        results, "scenario1", start=start, cells={(20.0, 0): simulated_cell(rng, 4, 20, 900, 4200)}, **changes
    )


def document(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    run = json.loads((folder / "run.json").read_text())
    change(run)
    (folder / "run.json").write_text(json.dumps(run))


def rewrite(folder: Path, old: str, new: str) -> None:
    text = (folder / "samples.csv").read_text()
    assert old in text
    (folder / "samples.csv").write_text(text.replace(old, new, 1))


def cut(folder: Path, bytes_off: int) -> None:
    text = (folder / "samples.csv").read_bytes()
    (folder / "samples.csv").write_bytes(text[:-bytes_off])


SPOILT: dict[str, tuple[Spoil, str, str]] = {
    "no document": (lambda f: (f / "run.json").unlink(), "half-written", "80 samples"),
    "interrupted": (
        lambda f: (f / "run.json").rename(f / "interrupted.json"),
        "interrupted",
        "80 samples",
    ),
    "no JSON": (lambda f: (f / "run.json").write_text('{"schema": 1, '), "damaged", "run.json cannot be read"),
    "binary": (lambda f: (f / "run.json").write_bytes(b"\xff\xfe\x00"), "damaged", "run.json cannot be read"),
    "a list": (lambda f: (f / "run.json").write_text("[]"), "foreign", "not a document"),
    "other schema": (lambda f: document(f, lambda d: d.update(schema="x")), "foreign", "schema"),
    "newer schema": (lambda f: document(f, lambda d: d.update(schema=2)), "newer", "update the lab"),
    "no cells": (lambda f: document(f, lambda d: d.pop("cells")), "damaged", "lacks cells"),
    "cells no list": (lambda f: document(f, lambda d: d.update(cells={})), "damaged", "cells in run.json"),
    "counts": (lambda f: document(f, lambda d: d["cells"][0].update(lost=3)), "damaged", "do not add up"),
    "count missing": (lambda f: document(f, lambda d: d["cells"][0].pop("late")), "damaged", "a cell (late)"),
    "treatments": (lambda f: document(f, lambda d: d.update(treatments=["x"])), "damaged", "a treatment"),
    "no samples": (lambda f: (f / "samples.csv").unlink(), "damaged", "samples.csv is missing"),
    "samples cut at a line": (lambda f: cut(f, 200), "damaged", ""),
    "samples cut in a line": (lambda f: cut(f, 40), "damaged", ""),
    "samples empty": (lambda f: (f / "samples.csv").write_text(""), "damaged", "first line"),
    "samples foreign": (lambda f: (f / "samples.csv").write_text("a,b\n1,2\n"), "damaged", "first line"),
    "samples binary": (lambda f: (f / "samples.csv").write_bytes(b"\x00\xff" * 100), "damaged", "first line"),
    "outcome unknown": (lambda f: rewrite(f, "answered", "answerd"), "damaged", "samples.csv"),
    "outcome edited": (lambda f: rewrite(f, "answered", "lost"), "damaged", "disagree"),
    "latency missing": (lambda f: put_latency(f, ["", "", ""]), "damaged", "no numbers"),
    "latency edited": (lambda f: put_latency(f, ["4300.000", "4200.000", "100.000"]), "damaged", "edited"),
}


def put_latency(folder: Path, latencies: list[str]) -> None:
    """Write over T, R and O of one message."""
    lines = (folder / "samples.csv").read_text().splitlines()
    fields = lines[5].split(",")
    fields[7:10] = latencies
    lines[5] = ",".join(fields)
    (folder / "samples.csv").write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("how", SPOILT)
def test_a_spoilt_run_is_named_with_what_it_means(results: Path, how: str) -> None:
    spoil, kind, word = SPOILT[how]
    folder = small_run(results)
    spoil(folder)
    found = read_run(folder)
    if isinstance(found, StoredRun):
        cells = read_cells(found)
        assert isinstance(cells, Unusable), how
        found = cells
    assert found.kind == kind
    assert word in found.meaning


@pytest.fixture(scope="module")
def report_over_spoilt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One report over a sound run and one spoilt in each way, all newer; what a terminal got is in said.txt."""
    results, out = tmp_path_factory.mktemp("spoilt"), tmp_path_factory.mktemp("out")
    small_run(results, SOUND)
    for how, (spoil, _kind, _word) in SPOILT.items():
        spoil(small_run(results, start_of(how)))
    with printing_to_a_terminal() as said:
        assert write_report(results, [], out) == 0
    (out / "said.txt").write_text(said.getvalue())
    return out


SOUND = "20260101T000000Z"


def start_of(how: str) -> str:
    """Each spoilt run has a minute of its own."""
    return f"20260202T00{list(SPOILT).index(how):02}00Z"


def test_a_report_over_spoilt_runs_uses_the_sound_one(report_over_spoilt: Path) -> None:
    runs = (report_over_spoilt / "runs.csv").read_text()
    assert f"{SOUND}-scenario1,scenario1,thesis,yes,valid" in runs
    assert runs.count(",yes,") == 1


def test_a_terminal_gets_no_line_wider_than_itself_but_the_path(report_over_spoilt: Path) -> None:
    *lines, path = (report_over_spoilt / "said.txt").read_text().splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(line.startswith("not used: ") for line in lines) == len(SPOILT)
    assert path == str(report_over_spoilt / "index.html")


@pytest.mark.parametrize("how", SPOILT)
def test_a_report_over_a_spoilt_run_names_it(report_over_spoilt: Path, how: str) -> None:
    run_id, kind = f"{start_of(how)}-scenario1", SPOILT[how][1]
    assert f"{run_id},,,no,{kind}," in (report_over_spoilt / "runs.csv").read_text()
    page = (report_over_spoilt / "index.html").read_text()
    told = next(entry for entry in re.split(r"<(?:li|tr)\b", page) if run_id in entry)
    assert kind in told


def test_a_run_in_progress_is_named(results: Path) -> None:
    folder = small_run(results)
    folder.rename(results / ".20260101T000000Z-scenario1.partial")
    selection = select(results, [])
    assert [problem.kind for problem in selection.unusable] == ["in progress"]


def test_only_spoilt_runs_still_give_a_page_and_exit_code_1(results: Path, tmp_path: Path) -> None:
    (small_run(results) / "run.json").unlink()
    (results / "holiday pictures").mkdir()
    assert write_report(results, [], tmp_path / "out") == 1
    page = (tmp_path / "out/index.html").read_text()
    assert "holiday pictures" in page
    assert "half-written" in page


def test_a_named_run_that_cannot_be_used_is_exit_code_1(results: Path, tmp_path: Path) -> None:
    good, bad = small_run(results), small_run(results, "20260202T000000Z")
    (bad / "samples.csv").unlink()
    assert write_report(results, [good.name], tmp_path / "a") == 0
    assert write_report(results, [good.name, bad.name], tmp_path / "b") == 1
    with pytest.raises(LabError, match="There is no run 'nonsense'") as error:
        write_report(results, ["nonsense"], tmp_path / "c")
    assert error.value.exit_code == 2


def test_no_results_at_all_is_wrong_use(tmp_path: Path) -> None:
    with pytest.raises(LabError) as error:
        select(tmp_path / "results", [])
    assert error.value.exit_code == 2


def test_of_two_runs_of_one_scenario_the_newer_is_used_and_the_older_named(results: Path, tmp_path: Path) -> None:
    for start in ("20260101T000000Z", "20260301T000000Z", "20260201T000000Z"):
        small_run(results, start)
    assert write_report(results, [], tmp_path / "out") == 0
    runs = (tmp_path / "out/runs.csv").read_text()
    assert "20260301T000000Z-scenario1,scenario1,thesis,yes" in runs
    assert runs.count(",no,older,") == 2
    # Naming both does not leave one out in silence either.
    names = ["20260101T000000Z-scenario1", "20260301T000000Z-scenario1"]
    assert write_report(results, names, tmp_path / "both") == 0
    assert (tmp_path / "both/runs.csv").read_text().count("scenario1,thesis") == 2


def test_where_requests_waited_for_the_robot_the_page_shows_r_without_the_wait(results: Path, tmp_path: Path) -> None:
    cells = {(interval, 0): simulated_cell(np.random.default_rng(1), 4, 20, 900, 8400) for interval in (50.0, 20.0)}
    folder = write_run(results, "scenario2", start="20260303T000000Z", cells=cells)

    def bunched(run: dict[str, Any]) -> None:
        at_50_ms, at_20_ms = run["cells"]
        at_50_ms |= {"waited": 0, "service_R_us": summarise([4_111_000])}
        at_20_ms |= {"waited": 37, "service_R_us": summarise([4_200_000, 4_300_000])}

    document(folder, bunched)
    assert write_report(results, [folder.name], tmp_path / "out") == 0
    page = (tmp_path / "out" / "index.html").read_text()
    (row,) = re.findall(r'<th scope="row">R free</th>(.*?)</tr>', page, re.DOTALL)
    assert "37 waited" in row
    assert re.findall(r"<td[^>]*>([0-9.]+)</td>", row) == ["4.200", "4.250", "4.300", "4.250", "4.295", "4.299"]
    assert page.count("R free is the part of R") == 1
    # Runs of before it was measured.
    write_report(results, [small_run(results, start="20260304T000000Z").name], tmp_path / "out")
    assert "R free" not in (tmp_path / "out" / "index.html").read_text()


def test_runs_of_an_experiment_are_one_line_in_the_terminal(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for day in (1, 2, 3):
        small_run(results, start=f"2026040{day}T000000Z", changes={"experiment": "qos-delay"})
    write_report(results, [], tmp_path / "out")
    said = capsys.readouterr().out
    assert "apart: 3 run(s) of the experiment qos-delay, left to its own report." in said
    assert said.count("qos-delay") == 1
