"""Wrong use and a machine that lacks something: one clear message with its remedy, the right code, nothing left."""

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.e2e_lab import Lab, free_port


def check_said(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    for word in words:
        assert word in done.stderr


def check_nothing_started(lab: Lab) -> None:
    assert lab.containers(running=False) == {}
    assert not list((lab.root / "results").glob("*scenario*"))


def test_wrong_use_is_told_and_starts_nothing(own_lab: Lab) -> None:
    """Every other word that is wrong: tests/unit/lab/test_run_options.py."""
    check_said(own_lab.run("run", "scenario0", "--messages", "many"), 2, "MESSAGES='many'", "whole number")
    check_said(own_lab.run("run", "scenario0", LAB_BROKER_PORT="mqtt"), 2, "LAB_BROKER_PORT", "1 to 65535")
    check_nothing_started(own_lab)


def test_an_engine_that_does_not_answer_is_named(own_lab: Lab) -> None:
    nowhere = "unix:///nonexistent.sock"
    check_said(own_lab.run("run", "scenario0", DOCKER_HOST=nowhere), 3, nowhere, "DOCKER_HOST")


def append(path: Path, line: str) -> None:
    path.write_text(path.read_text() + line)


PARAMS = "compose/scenarios/scenario0/params.env"


@pytest.mark.parametrize(("file", "line"), [(PARAMS, "MESSAGES=${MESSAGES:-abc}\n"), (".env", "\nMESSAGES=abc\n")])
def test_a_slip_in_a_file_names_variable_and_file(own_lab: Lab, file: str, line: str) -> None:
    append(own_lab.root / file, line)
    check_said(own_lab.run("run", "scenario0"), 2, "MESSAGES='abc'", file)
    check_nothing_started(own_lab)


def test_yaml_that_cannot_be_read_is_named_with_its_file(own_lab: Lab) -> None:
    """Compose itself says the line alone; the files that refer to this one are not blamed."""
    name = "compose/observe.yaml"
    append(own_lab.root / name, "  broken: [unclosed\n")
    check_said(own_lab.run("run", "scenario0"), 2, f"{name} cannot be read: yaml: line ", f"git checkout {name}")
    check_nothing_started(own_lab)


def test_plain_compose_tells_a_slip_too(own_lab: Lab) -> None:
    append(own_lab.root / ".env", "\nMESSAGES=abc\n")
    own_lab.compose("--profile", "scenario0", "up", "--detach")
    assert own_lab.wait_for_end("scenario0") == 2
    assert "MESSAGES='abc'" in own_lab.compose("logs", "scenario0").stdout


@pytest.fixture
def port_in_use() -> Iterator[int]:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", free_port()))
        holder.listen()
        yield int(holder.getsockname()[1])


def test_a_port_in_use_is_named_with_its_variable(own_lab: Lab, port_in_use: int) -> None:
    done = own_lab.run("run", "scenario0", "--quick", LAB_PROMETHEUS_PORT=str(port_in_use))
    check_said(done, 3, f"Port {port_in_use} is in use", "LAB_PROMETHEUS_PORT")
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
