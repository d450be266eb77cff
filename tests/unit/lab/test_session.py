"""A session of runs: alone on its engine, and nothing of others is stopped or taken for its own."""

import shutil
from pathlib import Path

import pytest
from support import host_fakes as fakes
from support.places import ROOT
from support.tools import make_repository

from looplab.errors import EXIT_MACHINE, LabError
from looplab.experiments.registry import EXPERIMENTS
from looplab.lab import alone, checkout, session
from looplab.lab.alone import hold_lab, lock_file
from looplab.lab.checkout import Lab
from looplab.lab.docker.engine import NO_ANSWER, Engine
from looplab.lab.scenarios import every
from looplab.lab.session import command_line
from looplab.system.lock import hold


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    found = Engine(server_id="ABCD:EFGH")
    monkeypatch.setattr(alone, "LOCKS", tmp_path)
    monkeypatch.setattr(alone, "_held", {})
    return found


def test_the_command_of_a_run_holds_what_the_shell_and_its_env_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["./lab", "run", "scenario2"])
    names = {"STRESS_CPU", "FLOOD_REPEAT", "LINK_DELAY_MS", "LAB_OWN", "STRESS_IMAGE", "CAPTURE"}
    for name in names:
        monkeypatch.setenv(name, "7")
    line = command_line(ROOT, [EXPERIMENTS["loop"]])
    assert {f"{name}=7" for name in names} <= {*line.split()}
    assert "PATH=" not in line
    shutil.copy(ROOT / "compose.yaml", tmp_path)
    (tmp_path / ".env").write_text("LINK=\nFIDELITY=thesis\nBROKER=mosquitto\n")
    make_repository(tmp_path)
    (tmp_path / ".env").write_text("LINK=wifi\nFIDELITY=corrected\nBROKER=mosquitto\n")
    monkeypatch.setenv("FIDELITY", "printed")
    assert command_line(tmp_path, []) == "FIDELITY=printed LINK=wifi ./lab run scenario2"


def test_a_held_lab_gets_no_image(
    tmp_path: Path, engine: Engine, docker: fakes.Docker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine that was only now started has its own lock, too."""
    monkeypatch.setattr(checkout, "ensure_engine", lambda: engine)
    shutil.copy(ROOT / ".env", tmp_path)
    lab = Lab(tmp_path)
    with hold(lock_file(tmp_path, engine), "another"), pytest.raises(LabError, match="another, since"):
        lab.make_ready(lambda found: hold_lab(lab, found))
    assert docker.calls() == []


def test_the_sessions_of_a_study_share_the_lock_other_projects_and_engines_do_not(
    tmp_path: Path, engine: Engine
) -> None:
    one = lock_file(tmp_path, engine)
    for _ in range(2):
        hold_lab(Lab(tmp_path), engine)
    assert [path.name for path in tmp_path.iterdir()] == [one.name]
    assert lock_file(tmp_path, Engine(server_id="other")) != one
    (tmp_path / ".env").write_text("COMPOSE_PROJECT_NAME=other\n")
    assert lock_file(tmp_path, engine) != one


def test_an_engine_that_ended_in_a_run_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller's own end says nothing then."""
    monkeypatch.setattr(session, "find_engine", lambda: Engine(trouble=NO_ANSWER))
    scenario = every(ROOT)["scenario1"]
    error = session._ended_early(tmp_path, Lab(ROOT).compose(), scenario, "20260101T000000Z-scenario1")
    assert (error.message, error.exit_code) == ("The Docker engine ended during scenario1.", EXIT_MACHINE)
    assert "sudo systemctl start docker" in error.remedy
