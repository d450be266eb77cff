"""./lab report as a process: what it prints, its exit code, what it leaves."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.places import ROOT
from support.simulated_runs import nine_scenarios


def lab(root: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "looplab.lab.cli", *words],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "LAB_ROOT": str(root), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_odd_input_is_named_and_the_rest_is_reported(tmp_path: Path) -> None:
    results = tmp_path / "results"
    nine_scenarios(results, repetitions=3, messages=20)
    (results / "20260301T000001Z-scenario1").mkdir()
    samples = results / "20260101T000000Z-scenario2/samples.csv"
    samples.write_bytes(samples.read_bytes()[:2000])
    done = lab(tmp_path, "report")
    assert (done.returncode, done.stderr) == (0, "")
    assert "loop: 8 run(s), 1,680 messages" in done.stdout
    for words in ("neither run.json nor samples.csv", "samples.csv"):
        assert "not used: 2026" in done.stdout
        assert words in done.stdout
        assert words in (tmp_path / "report/index.html").read_text()


def test_a_missing_run_is_named_and_no_report_is_left(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    done = lab(tmp_path, "report", "20260101T000000Z-scenario5")
    assert done.returncode == 2
    assert "There is no run '20260101T000000Z-scenario5'" in done.stderr
    assert not (tmp_path / "report").exists()
    empty = lab(tmp_path, "report")
    assert empty.returncode == 1
    assert "0 run(s)" in empty.stdout


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS has its own opener, `open`")
def test_open_hands_the_page_to_the_desktop_and_names_its_address_otherwise(tmp_path: Path) -> None:
    nine_scenarios(tmp_path / "results", repetitions=1, messages=5)
    page, opener = tmp_path / "report/index.html", tmp_path / "xdg-open"
    opener.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/opened\n[ ! -e {tmp_path}/broken ]\n')
    opener.chmod(0o755)
    desktop = {"PATH": str(tmp_path), "DISPLAY": ":7"}
    done = lab(tmp_path, "report", "--open", **desktop)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "opened").read_text() == f"{page}\n"
    done = lab(tmp_path, "report", "--open", **desktop | {"DISPLAY": "", "WAYLAND_DISPLAY": ""})
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, page.as_uri())
    (tmp_path / "broken").touch()
    done = lab(tmp_path, "report", "--open", **desktop)
    assert done.returncode == 3
    assert "`xdg-open` could not open the report" in done.stderr
    assert page.as_uri() in done.stderr
