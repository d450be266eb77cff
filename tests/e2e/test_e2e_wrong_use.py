"""Wrong use and a machine that lacks something: one clear message with its remedy, the right code, nothing left."""

import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pytest
from support.e2e_lab import Lab, free_port
from support.run_checks import check_run


class Case(NamedTuple):
    """`words` of ./lab, variables, and what must be said beside the exit code."""

    words: tuple[str, ...]
    code: int
    said: tuple[str, ...]
    variables: Mapping[str, str] = MappingProxyType({})


CASES = {
    "unknown scenario": Case(("run", "scenario42"), 2, ("scenario42", "scenario0", "scenario8")),
    "no scenario": Case(("run",), 2, ("SCENARIO",)),
    "messages of a word": Case(("run", "scenario0", "--messages", "many"), 2, ("MESSAGES='many'", "whole number")),
    "no interval at all": Case(("run", "scenario0", "--intervals", "0"), 2, ("INTERVALS_MS='0'", "0.5 to 60000")),
    "quality of service 3": Case(("run", "scenario0", "--qos", "0,3"), 2, ("QOS='0,3'", "0, 1 or 2")),
    "fidelity of the shell": Case(("run", "scenario0"), 2, ("FIDELITY='exact'", "thesis"), {"FIDELITY": "exact"}),
    "a robot nobody has": Case(("run", "scenario0", "--robot", "simulated"), 2, ("virtual",)),
    "a link nobody has": Case(("run", "scenario0", "--link", "moon"), 2, ("LINK=moon", "custom, none, wifi")),
    "a broker nobody has": Case(("run", "scenario0"), 2, ("BROKER='pigeon'", "mosquitto"), {"BROKER": "pigeon"}),
    "an emulated link on a real one": Case(
        ("run", "scenario0", "--link", "wifi", "--robot", "remote"), 2, ("LINK=wifi", "ROBOT=remote")
    ),
    "a port of a word": Case(
        ("run", "scenario0"), 2, ("LAB_BROKER_PORT", "1 to 65535"), {"LAB_BROKER_PORT": "mqtt"}
    ),
    "a name for nothing": Case(("new", "Scenario 9"), 2, ("Scenario 9", "lower-case")),
    "no engine": Case(
        ("run", "scenario0"), 3, ("unix:///nonexistent.sock", "DOCKER_HOST"),
        {"DOCKER_HOST": "unix:///nonexistent.sock"},
    ),
    "no engine to stop": Case(
        ("down",), 3, ("unix:///nonexistent.sock",), {"DOCKER_HOST": "unix:///nonexistent.sock"}
    ),
}  # fmt: skip


def check_said(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    for word in words:
        assert word in done.stderr


def check_nothing_started(lab: Lab) -> None:
    assert lab.containers(running=False) == {}
    assert not list((lab.root / "results").glob("*scenario*"))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_wrong_use_is_told_and_starts_nothing(own_lab: Lab, case: Case) -> None:
    check_said(own_lab.run(*case.words, **case.variables), case.code, *case.said)
    check_nothing_started(own_lab)


def append(line: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        path.write_text(path.read_text() + line)

    return change


PARAMS = "compose/scenarios/scenario0/params.env"
SLIPS = {
    "params.env": (PARAMS, append("MESSAGES=${MESSAGES:-abc}\n"), PARAMS),
    "params.env, plain": (PARAMS, append("MESSAGES=abc\n"), PARAMS),
    ".env": (".env", append("\nMESSAGES=abc\n"), ".env"),
}


@pytest.mark.parametrize(("file", "change", "named"), SLIPS.values(), ids=SLIPS.keys())
def test_a_slip_in_a_file_names_variable_and_file(
    own_lab: Lab, file: str, change: Callable[[Path], None], named: str
) -> None:
    change(own_lab.root / file)
    check_said(own_lab.run("run", "scenario0"), 2, "MESSAGES='abc'", named)
    check_nothing_started(own_lab)


def test_yaml_that_cannot_be_read_is_named_with_its_file(own_lab: Lab) -> None:
    """Compose itself says the line alone; the files that refer to this one are not blamed."""
    name = "compose/observe.yaml"
    append("  broken: [unclosed\n")(own_lab.root / name)
    check_said(own_lab.run("run", "scenario0"), 2, f"{name} cannot be read: yaml: line ", f"git checkout {name}")
    check_nothing_started(own_lab)


def test_plain_compose_tells_a_slip_too(own_lab: Lab) -> None:
    append("\nMESSAGES=abc\n")(own_lab.root / ".env")
    own_lab.compose("--profile", "scenario0", "up", "--detach")
    assert own_lab.wait_for_end("scenario0") == 2
    assert "MESSAGES='abc'" in own_lab.compose("logs", "scenario0").stdout


@pytest.fixture
def port_in_use() -> Iterator[int]:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", free_port()))
        holder.listen()
        yield int(holder.getsockname()[1])


@pytest.mark.parametrize("variable", ["LAB_BROKER_PORT", "LAB_PROMETHEUS_PORT", "LAB_EXPORTER_PORT"])
def test_a_port_in_use_is_named_with_its_variable(own_lab: Lab, variable: str, port_in_use: int) -> None:
    done = own_lab.run("run", "scenario0", "--quick", **{variable: str(port_in_use)})
    check_said(done, 3, f"Port {port_in_use} is in use", variable)
    check_nothing_started(own_lab)


@pytest.fixture
def tiny_results(own_lab: Lab) -> Iterator[Lab]:
    """results/ on a disk of its own with half a megabyte."""
    results = own_lab.root / "results"
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k,mode=1777", "tmpfs", str(results)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"a small disk cannot be made here: {mounted.stderr.decode().strip()}")
    yield own_lab
    own_lab.down()
    subprocess.run(["umount", "--lazy", str(results)], check=True)


def test_a_full_disk_is_told_before_anything_is_measured(tiny_results: Lab) -> None:
    done = tiny_results.run("run", "scenario0", "--quick")
    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stderr
    assert "no space left" in done.stderr
    assert "Free some disk space" in done.stderr
    assert tiny_results.containers(running=False) == {}


OLD_PLUGIN = """#!/bin/sh
case $1 in
docker-cli-plugin-metadata) echo '{"SchemaVersion":"0.1.0","Vendor":"Docker Inc.","Version":"2.10.2"}' ;;
*) echo "Docker Compose version v2.10.2" ;;
esac
"""


def test_an_old_compose_is_named_with_the_one_needed(own_lab: Lab, tmp_path: Path) -> None:
    plugin = tmp_path / "docker/cli-plugins/docker-compose"
    plugin.parent.mkdir(parents=True)
    plugin.write_text(OLD_PLUGIN)
    plugin.chmod(0o755)
    done = own_lab.run("down", DOCKER_CONFIG=str(tmp_path / "docker"))
    check_said(done, 3, "2.10.2 is too old", "2.24.4", "./lab setup")


def test_files_saved_on_windows_still_run(own_lab: Lab) -> None:
    for name in (".env", PARAMS, "compose/loop.yaml", "compose/observe.yaml"):
        path = own_lab.root / name
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    own_lab.run("run", "scenario0", "--quick", "--messages", "25", code=0)
    folder, run = own_lab.newest()
    check_run(folder, run)
    assert run["scenario"] == "scenario0"
