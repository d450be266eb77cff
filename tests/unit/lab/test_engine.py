"""Unhappy engines are recognised and told apart, each with its own remedy."""

from __future__ import annotations

import pytest
from support import host_fakes as fakes

from looplab.errors import EXIT_MACHINE, LabError
from looplab.lab.docker.engine import find_engine, require_compose, require_engine


def complaint(check: object) -> LabError:
    with pytest.raises(LabError) as caught:
        check(find_engine())  # type: ignore[operator]
    assert caught.value.exit_code == EXIT_MACHINE
    return caught.value


def test_an_engine_that_serves(programs: fakes.Programs) -> None:
    programs.add("docker", {"info*": fakes.good_info()})
    engine = find_engine()
    assert engine.serves
    assert engine.compose_serves
    assert engine.local
    assert (engine.server_version, engine.cgroup_version, engine.rootless) == ("20.10.24+dfsg1", 1, False)
    assert engine.compose == (2, 26, 1)
    require_compose(engine)


def test_no_docker_at_all(programs: fakes.Programs) -> None:
    error = complaint(require_engine)
    assert "not installed" in error.message
    assert "./lab setup" in error.remedy


@pytest.mark.parametrize("info", [fakes.broken_info, fakes.broken_info_20_10])
def test_no_rights_names_the_group(programs: fakes.Programs, info: object) -> None:
    programs.add("docker", {"info*": info(fakes.NO_RIGHTS_TEXT)})  # type: ignore[operator]
    error = complaint(require_engine)
    assert "may not use it" in error.message
    assert "usermod -aG docker" in error.remedy
    assert "sudo" in error.remedy


@pytest.mark.parametrize("info", [fakes.broken_info, fakes.broken_info_20_10])
def test_a_daemon_that_does_not_answer(programs: fakes.Programs, info: object) -> None:
    programs.add("docker", {"info*": info(fakes.NO_ANSWER_TEXT)})  # type: ignore[operator]
    error = complaint(require_engine)
    assert "does not answer" in error.message
    assert "systemctl start docker" in error.remedy


def test_a_remote_engine_is_not_started_here(programs: fakes.Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.1:2375")
    programs.add("docker", {"info*": fakes.broken_info("Cannot connect to the Docker daemon at tcp://192.0.2.1:2375.")})
    engine = find_engine()
    assert not engine.local
    assert "tcp://192.0.2.1:2375" in complaint(require_engine).remedy


def test_podman_under_dockers_name(programs: fakes.Programs) -> None:
    answer = ('{"host": {}, "version": {"Version": "5.4"}}', "Emulate Docker CLI using podman.\n", 0)
    programs.add("docker", {"info*": answer})
    assert "podman" in complaint(require_engine).message


def test_windows_containers(programs: fakes.Programs) -> None:
    programs.add("docker", {"info*": fakes.good_info(OSType="windows")})
    assert "Linux containers" in complaint(require_engine).remedy


def test_legacy_compose_alone_is_said_to_be_too_old(programs: fakes.Programs) -> None:
    programs.add("docker", {"info*": fakes.good_info(ClientInfo=fakes.client(plugins=[]))})
    programs.add("docker-compose", {"'version --short'": ("1.29.2\n", "", 0)})
    error = complaint(require_compose)
    assert "legacy docker-compose 1.29.2" in error.message
    assert "2.24.4" in error.message
    assert "./lab setup" in error.remedy


def test_version_2_called_docker_compose_is_not_legacy(programs: fakes.Programs) -> None:
    programs.add("docker", {"info*": fakes.good_info(ClientInfo=fakes.client(plugins=[]))})
    programs.add("docker-compose", {"'version --short'": ("2.40.3\n", "", 0)})
    assert "not installed" in complaint(require_compose).message


@pytest.mark.parametrize(
    ("version", "serves"), [("v2.24.3", False), ("v2.24.4", True), ("2.6.0", False), ("5.0", True)]
)
def test_which_compose_is_new_enough(programs: fakes.Programs, version: str, serves: bool) -> None:
    plugin = {"Name": "compose", "Version": version}
    programs.add("docker", {"info*": fakes.good_info(ClientInfo=fakes.client(plugins=[plugin]))})
    engine = find_engine()
    assert engine.compose_serves is serves
    if not serves:
        assert f"{version.lstrip('v')} is too old" in complaint(require_compose).message


def test_rootless_and_cgroup_2(programs: fakes.Programs) -> None:
    options = ["name=seccomp,profile=builtin", "name=rootless", "name=cgroupns"]
    programs.add("docker", {"info*": fakes.good_info(CgroupVersion="2", SecurityOptions=options)})
    engine = find_engine()
    assert engine.rootless
    assert engine.cgroup_version == 2
