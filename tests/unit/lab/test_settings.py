"""What .env hands to the engine: a slip is told by its variable, before anything starts."""

from pathlib import Path

import pytest
from support import host_fakes as fakes
from support.places import ROOT

from looplab.errors import UsageError
from looplab.lab.checkout import Lab
from looplab.lab.settings import (
    ADDRESSES,
    RULES,
    check_parts,
    check_settings,
    file_choices,
    read_machine_file,
    write_machine_file,
)
from looplab.system.env_files import read_env


def test_what_the_lab_ships_is_good_and_nothing_set_is_too() -> None:
    check_settings(read_env(ROOT / ".env"))
    check_settings(dict.fromkeys((*RULES, *ADDRESSES), ""))
    check_settings({"LAB_REGISTRY": "house.test:5000/lab/"})
    check_settings({"LAB_BIND": "[::1]", "STRESS_VM_BYTES": "2G", "STRESS_TIMEOUT": "1h"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LAB_UID", "ada"), ("LAB_GID", "-1"), ("ROBOT_GROUP", "dialout"), ("LAB_RTPRIO", "high"),
        ("LAB_RATIONED", "130"), ("STRESS_CPU", "all"), ("STRESS_IO", "-1"),
        ("STRESS_VM_BYTES", "128 MB"), ("STRESS_TIMEOUT", "forever"),
        ("FLOOD_IMAGE", "looplab/flood:0.1.0"), ("BASE_IMAGE", "looplab/debian:0.1.0"),
        ("FLOOD_CLIENTS", "1e2"), ("FLOOD_TIMEOUT", "20s"), ("GRAFANA", "yes"),
        ("LAB_BIND", "localhost"), ("LAB_LAN_BIND", "192.168.1"), ("LAB_LAN_BIND", "::"),
        ("LAB_TAG", "a b"), ("COMPOSE_PROJECT_NAME", "Lab"), ("LAB_REGISTRY", "registry.example.org"),
        ("LAB_REGISTRY", "https://registry.example.org/"), ("LAB_REGISTRY", "Registry/"), ("LAB_REGISTRY", "/"),
    ],
)  # fmt: skip
def test_a_slip_names_variable_and_value(name: str, value: str) -> None:
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


def test_the_machine_file_comes_back_as_written(tmp_path: Path) -> None:
    assert read_machine_file(tmp_path) == {}
    variables = {"LAB_RTPRIO": "0", "GRAFANA": "off"}
    write_machine_file(tmp_path, variables)
    assert read_machine_file(tmp_path) == variables
    write_machine_file(tmp_path, {"GRAFANA": "on"})
    assert read_machine_file(tmp_path) == {"GRAFANA": "on"}
    assert [entry.name for entry in tmp_path.iterdir()] == [".env.machine"]


def test_a_stand_in_with_a_name_of_docker_hub_is_found_again(tmp_path: Path) -> None:
    kept = {"POSTGRES_IMAGE": "localhost/looplab/postgres:0.1.0", "FLOOD_IMAGE": "", "LAB_RTPRIO": "0"}
    write_machine_file(tmp_path, {**kept, "MOSQUITTO_IMAGE": "looplab/mosquitto:0.1.0"})
    assert read_machine_file(tmp_path) == kept


@pytest.mark.parametrize(
    ("settings", "chosen"),
    [
        ({"LINK": "none", "GRAFANA": "on", "TWIN_LINK": "off"}, {"LINK": "", "GRAFANA": "", "TWIN_LINK": ""}),
        ({"OWN_LINK": "none"}, {"OWN_LINK": ""}),
        ({"LINK": "wifi", "GRAFANA": "off", "BROKER_TLS": "off"}, {}),
    ],
)
def test_a_value_that_changes_nothing_chooses_no_file(settings: dict[str, str], chosen: dict[str, str]) -> None:
    assert file_choices(settings) == chosen


@pytest.mark.parametrize("variable", ["OWN_CLIENT", "OWN_BRIDGE"])
def test_a_program_that_is_not_there_is_named_before_anything_starts(variable: str) -> None:
    check_parts(ROOT, {variable: "README.md"})
    # The engine would make a folder of that name.
    with pytest.raises(UsageError, match=f"{variable}=answers/none.py: there is no such file") as caught:
        check_parts(ROOT, {variable: "answers/none.py"})
    assert f"set OWN_IMAGE to your image and {variable} to a command in it" in caught.value.remedy
    check_parts(ROOT, {variable: "/none", "OWN_IMAGE": "me/client:1"})
