"""The terminal view without a terminal: what it reads, and that it fits; ./lab show, of which run."""

import io
import json
import re
import shutil
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from rich.console import Console
from support.every_experiment import begin
from support.places import ROOT
from support.run_files import Writer, parameters, publish_state, treatment

from looplab.errors import UsageError
from looplab.experiments.registry import EXPERIMENTS
from looplab.exporter.live import LiveFolder
from looplab.exporter.machine import HostWatch
from looplab.exporter.server import Exporter
from looplab.lab.commands.show import show
from looplab.lab.commands.watch import parse, screen
from looplab.run.samples import ANSWERED

TREATMENTS = [
    treatment("stress load", "running") | {"found": "not running", "verified": False},
    *(treatment(f"treatment number {k} of the whole loop", "SCHED_FIFO 90") for k in range(9)),
]


def metrics(live: Path) -> str:
    registry = CollectorRegistry()
    registry.register(Exporter(LiveFolder(live, EXPERIMENTS), [HostWatch({})], 8080).page())
    return generate_latest(registry).decode()


def lines_of(page: str, width: int = 80, height: int = 24) -> list[str]:
    """The lines that a terminal of that size would show."""
    out = io.StringIO()
    Console(file=out, width=width, height=height).print(screen(parse(page), height))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_what_is_shown_in_80_by_24(tmp_path: Path) -> None:
    """Of a run of two cells that goes on."""
    writer = Writer(tmp_path)
    for row in range(30):
        writer.send(row)
        writer.answer(row, ANSWERED, total_ms=5 + row % 7, robot_ms=4)
    publish_state(tmp_path, "running", treatments=TREATMENTS)
    lines = lines_of(metrics(tmp_path))
    text = "\n".join(lines)
    assert (max(map(len, lines)) <= 80, len(lines) <= 24) == (True, True)
    assert all(any(entry["what"] in line for line in lines) for entry in TREATMENTS)
    assert lines[0] == "scenario1, fidelity thesis: running, 30 of 40 messages"
    assert re.search(r"^  20 ms, QoS 0 +20 +20 +0 +0 +0 +4\.02 +7\.15 +7\.15 +7\.15 +0\.10$", text, re.MULTILINE)
    assert re.search(r"^> 10 ms, QoS 0 +10 +10 ", text, re.MULTILINE)
    assert re.search(r"^stress load +running +not running +WRONG$", text, re.MULTILINE)
    # Bars of T, R and O: half of T's answers came within 7 ms.
    assert re.search(r"^answered within +T +R +O$", text, re.MULTILINE)
    assert re.search(r"^6\.81 ms +█{7}▌ +█{20} +█{16}$", text, re.MULTILINE)


def test_a_lost_message_is_within_no_time(tmp_path: Path) -> None:
    live = tmp_path
    writer = Writer(live, 20)
    for row in range(20):
        writer.send(row, ago_ms=10_000)
        if row % 2:
            writer.answer(row, ANSWERED, total_ms=5 + row % 7, robot_ms=4)
    publish_state(live, "running", parameters=parameters(INTERVALS_MS="20"))
    page = metrics(live)
    assert re.search(r'outcome="lost".*} 10', page)
    # T and O are within 11 and 7 ms, R of each message is 4 ms: half of those that were sent.
    bars = re.findall(r"^.* ms +(█+▌?) +(█+▌?)", "\n".join(lines_of(page)), re.MULTILINE)
    assert bars
    assert {len(of_r) for _, of_r in bars} == {10}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_is_shown(name: str, tmp_path: Path) -> None:
    begin(tmp_path, name)
    running = lines_of(metrics(tmp_path))
    assert ", fidelity thesis: running, " in running[0]
    assert any(line.startswith("> ") for line in running)
    state = json.loads((tmp_path / "state.json").read_text())
    (tmp_path / "state.json").write_text(json.dumps({**state, "state": "finished", "valid": True}))
    ended = lines_of(metrics(tmp_path))
    assert ": ended, " in ended[0]
    assert max(map(len, running + ended)) <= 80


@pytest.mark.parametrize("page", ["\n", "garbage\n{}{}", 'lab_run_info{scenario="a"', "lab_broker_up 1\n"])
def test_a_page_without_a_run_says_how_to_start_one(page: str) -> None:
    assert "No run yet" in "\n".join(lines_of(page))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("20260101T000000Z-scenario1", "20260102T000000Z-scenario2"):
        folder = tmp_path / "results" / name
        folder.mkdir(parents=True)
        run = json.loads((ROOT / "tests/support/sample_runs/loop.json").read_text())
        (folder / "run.json").write_text(json.dumps({**run, "run_id": name, "scenario": name.partition("-")[2]}))
    return tmp_path


def test_a_run_is_named_by_folder_or_scenario(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    older, newer = "20260101T000000Z-scenario1", "20260102T000000Z-scenario2"
    for word, shown in (("", newer), ("scenario1", older), (f"results/{older}/", older)):
        assert show(root, word, treatments=False) == 0
        out = capsys.readouterr().out
        assert f"run {shown}" in out
        assert "send lateness" in out


def test_a_run_that_is_not_there_is_named_with_the_newest(root: Path) -> None:
    with pytest.raises(UsageError, match="no run 'scenario7'") as error:
        show(root, "scenario7", treatments=False)
    assert "20260102T000000Z-scenario2" in error.value.remedy
    shutil.rmtree(root / "results")
    with pytest.raises(UsageError, match="no run in"):
        show(root, "", treatments=False)
