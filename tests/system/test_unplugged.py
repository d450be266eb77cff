"""A bundle carries the whole lab into a room without a network: every scenario and experiment, report and check.

LAB_UNPLUGGED=1 .venv/bin/python -m pytest tests/system/test_unplugged.py   (as root, some 20 minutes)
"""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.e2e_lab import RATIONED, Lab, copy_of_checkout, finished
from support.engines import OwnEngine
from support.places import ROOT
from support.run_checks import check_run

from looplab.lab.scenarios import chosen, experiments

# What points to a package index, a registry or a cache of this machine: a room has none of it.
KEPT = ("PATH", "LANG", "TERM", "TMPDIR", "LAB_TAG")
START = ("unshare", "--net", "sh", "-c", 'ip link set lo up && exec dockerd "$@"', "sh")


@dataclass
class Room:
    """Commands run in the namespace, with the engine there and an environment of almost nothing."""

    place: Path
    engine: OwnEngine

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        home = self.place / "home"
        home.mkdir(exist_ok=True)
        return {**kept, "HOME": str(home), "DOCKER_HOST": self.engine.endpoint}

    def run(
        self, *command: str, root: Path, timeout_s: float = 120.0, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        inside = ["nsenter", "--net", f"--target={self.engine.pid}", "--", *command]
        return finished(inside, root, {**self.environment, **variables}, timeout_s)


pytestmark = [
    pytest.mark.flag("LAB_UNPLUGGED"),
    pytest.mark.skipif(os.geteuid() != 0, reason="a second engine needs root"),
    pytest.mark.timeout(3600),
]
BUDGETS = {RATIONED: ""}


@pytest.fixture(scope="module")
def room() -> Iterator[Room]:
    """Its path is short: an engine's sockets lie in it."""
    with tempfile.TemporaryDirectory(prefix="lab-room-", dir="/tmp") as name, OwnEngine(Path(name), START) as engine:
        yield Room(Path(name), engine)


@pytest.fixture(scope="module")
def bundle(session_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made where there is a network."""
    file = tmp_path_factory.mktemp("bundle") / "room.bundle"
    session_lab.run("bundle", str(file), timeout_s=900, code=0)
    return file


@pytest.fixture(scope="module")
def checkout(room: Room, bundle: Path) -> Path:
    """A checkout in the room, with what the bundle holds."""
    root = copy_of_checkout(room.place / "lab", as_set_up=False)
    # The engine's own bridges are all that is reached from here.
    assert room.run("ip", "route", "get", "192.0.2.1", root=root).returncode != 0
    assert room.run("python3", "-m", "pip", "download", "rich", root=root).returncode != 0
    assert room.engine.docker("images", "--quiet") == ""
    loaded = room.run("./lab", "load", str(bundle), root=root, timeout_s=600)
    assert loaded.returncode == 0, loaded.stderr
    assert "No network is needed from now on" in loaded.stderr
    return root


def test_every_scenario_runs(room: Room, checkout: Path) -> None:
    small = ("--messages", "10", "--repetitions", "2")
    ran = room.run("./lab", "run", "all", *small, "--json", root=checkout, timeout_s=1200, **BUDGETS)
    runs = json.loads(ran.stdout)["runs"]
    assert ran.returncode == 0, {run["scenario"]: run["invalid_because"] for run in runs if not run["valid"]}
    assert [run["scenario"] for run in runs] == [one.name for one in chosen(ROOT, ["all"])]
    for run in runs:
        assert run["valid"], run["invalid_because"]
        check_run(checkout / "results" / run["run_id"], run)


@pytest.mark.parametrize("name", experiments(ROOT))
def test_every_experiment_runs(room: Room, checkout: Path, name: str) -> None:
    tried = room.run("./lab", "run", name, "--quick", "--json", root=checkout, timeout_s=900, **BUDGETS)
    assert tried.stdout, tried.stderr
    (run,) = json.loads(tried.stdout)["runs"]
    assert tried.returncode == 0, run["invalid_because"]
    assert run["valid"]


def test_report_and_check_and_nothing_left(room: Room, checkout: Path) -> None:
    reported = room.run("./lab", "report", root=checkout)
    assert reported.returncode == 0, reported.stderr
    pages = "".join(page.read_text() for page in (checkout / "report").glob("*.html"))
    assert all(folder.name in pages for folder in (checkout / "results").iterdir() if (folder / "run.json").exists())
    checked = room.run("./lab", "check", "scenario5", root=checkout)
    assert checked.returncode == 1
    assert "score: " in checked.stdout
    down = room.run("./lab", "down", root=checkout)
    assert down.returncode == 0, down.stderr
    assert room.engine.docker("ps", "--all", "--quiet") == ""
