"""A session of runs: alone on its engine; a slip of .env or the command line is named before anything starts."""

import shutil
from pathlib import Path

import pytest
from support import host_fakes as fakes
from support.places import ROOT
from support.tools import make_repository

from looplab.errors import EXIT_MACHINE, LabError, UsageError
from looplab.experiments.registry import EXPERIMENTS
from looplab.lab import alone, checkout, session
from looplab.lab.alone import hold_lab, lock_file
from looplab.lab.checkout import Lab
from looplab.lab.cli import main
from looplab.lab.docker.engine import NO_ANSWER, Engine
from looplab.lab.scenarios import every
from looplab.lab.session import command_line
from looplab.lab.settings import check_parts, check_settings
from looplab.system.env_files import read_env
from looplab.system.lock import hold


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


def test_a_held_lab_gets_no_image(tmp_path: Path, docker: fakes.Docker, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that was only now started has its own lock, too. The lock itself: tests/e2e/test_e2e_two_runs.py."""
    engine = Engine(server_id="ABCD:EFGH")
    monkeypatch.setattr(alone, "LOCKS", tmp_path)
    monkeypatch.setattr(alone, "_held", {})
    monkeypatch.setattr(checkout, "ensure_engine", lambda: engine)
    shutil.copy(ROOT / ".env", tmp_path)
    lab = Lab(tmp_path)
    with hold(lock_file(tmp_path, engine), "another"), pytest.raises(LabError, match="another, since"):
        lab.make_ready(lambda found: hold_lab(lab, found))
    assert docker.calls() == []


def test_an_engine_that_ended_in_a_run_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller's own end says nothing then."""
    monkeypatch.setattr(session, "find_engine", lambda: Engine(trouble=NO_ANSWER))
    scenario = every(ROOT)["scenario1"]
    error = session._ended_early(tmp_path, Lab(ROOT).compose(), scenario, "20260101T000000Z-scenario1")
    assert (error.message, error.exit_code) == ("The Docker engine ended during scenario1.", EXIT_MACHINE)
    assert "sudo systemctl start docker" in error.remedy


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("FLOOD_IMAGE", "looplab/flood:0.1.0"), ("BASE_IMAGE", "looplab/debian:0.1.0"),
        ("LAB_REGISTRY", "registry.example.org"), ("LAB_REGISTRY", "https://registry.example.org/"),
        ("LAB_REGISTRY", "Registry/"), ("LAB_REGISTRY", "/"),
    ],
)  # fmt: skip
def test_a_slip_names_variable_and_value(name: str, value: str) -> None:
    check_settings({**read_env(ROOT / ".env"), "LAB_REGISTRY": "house.test:5000/lab/"})
    with pytest.raises(UsageError, match=f"{name}='{value}'") as caught:
        check_settings({name: value})
    assert ".env" in caught.value.remedy


def test_the_projects_name_is_always_said(
    programs: fakes.Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty variable of the shell would make Compose stop another lab's containers."""
    (tmp_path / ".env").write_text("COMPOSE_PROJECT_NAME=mine\n")
    (tmp_path / "results").mkdir()
    monkeypatch.setenv("COMPOSE_PROJECT_NAME", "")
    programs.script("docker", 'echo "$COMPOSE_PROJECT_NAME"')
    assert Lab(tmp_path).compose().down().stdout == "mine\n"


@pytest.mark.parametrize("variable", ["OWN_CLIENT", "OWN_BRIDGE"])
def test_a_program_that_is_not_there_is_named_before_anything_starts(variable: str) -> None:
    check_parts(ROOT, {variable: "README.md"})
    # The engine would make a folder of that name.
    with pytest.raises(UsageError, match=f"{variable}=answers/none.py: there is no such file") as caught:
        check_parts(ROOT, {variable: "answers/none.py"})
    assert f"set OWN_IMAGE to your image and {variable} to a command in it" in caught.value.remedy
    check_parts(ROOT, {variable: "/none", "OWN_IMAGE": "me/client:1"})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("run", "SCENARIO"),
        ("run scenario0 --quikc", "--quikc"),
        ("rum", "invalid choice: 'rum'"),
        ("run qosdelay", "Did you mean qos-delay"),
        ("run ../scenarios/scenario1", "./lab list names all."),
        ("run scenario0 qos-delay", "not run by one command"),
        ("run scenario0 --broker mosqitto", "invalid choice: 'mosqitto'"),
        ("run scenario0 --link moon", "Known: custom, none, wifi"),
        ("run scenario0 --link wifi --robot remote", "LINK=wifi with ROBOT=remote"),
        ("run qos-delay --robot usb", "--robot: no option of qos-delay"),
        ("study balance --as scenario3", "COMMAND=E: scenario3 has no robot"),
        ("run scenario0 scenario1 --rounds 0", "--rounds"),
        ("new Scenario~9", "lower-case"),
    ],
)
def test_wrong_use_is_told_and_starts_nothing(
    programs: fakes.Programs, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: str, said: str
) -> None:
    programs.add("docker", {})
    monkeypatch.setenv("LAB_ROOT", str(ROOT))
    try:
        code = main(words.split())
    except SystemExit as ended:
        code = int(ended.code or 0)
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert said in " ".join(err.split())
    assert programs.calls("docker") == []
