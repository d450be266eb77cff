"""Unhappy engines are recognised and told apart, each with its own remedy."""

from collections.abc import Callable
from pathlib import Path

import pytest
from support import host_fakes as fakes

from looplab.errors import LabError, MachineError
from looplab.lab.docker import compose, engine
from looplab.lab.docker.compose import Compose
from looplab.lab.docker.engine import find_engine, require_compose, require_engine
from looplab.lab.docker.images import images_of, is_here


def complaint(check: object) -> LabError:
    with pytest.raises(MachineError) as caught:
        check(find_engine())  # type: ignore[operator]
    return caught.value


NO_RIGHTS = ("may not use it", "usermod -aG docker $USER, log out and in again (or newgrp docker); or use sudo")
NO_ANSWER = ("does not answer", "systemctl start docker")
PODMAN = ('{"host": {}, "version": {"Version": "5.4"}}', "Emulate Docker CLI using podman.\n", 0)


@pytest.mark.parametrize(
    ("info", "message", "remedy"),
    [
        (None, "not installed", "./lab setup"),
        (fakes.broken_info(fakes.NO_RIGHTS_TEXT), *NO_RIGHTS),
        (fakes.broken_info_20_10(fakes.NO_RIGHTS_TEXT), *NO_RIGHTS),
        (fakes.broken_info(fakes.NO_ANSWER_TEXT), *NO_ANSWER),
        (fakes.broken_info_20_10(fakes.NO_ANSWER_TEXT), *NO_ANSWER),
        (PODMAN, "Podman", "podman-docker"),
        (fakes.good_info(Plugins={"Log": ["k8s-file", "none"]}), "Podman", "unset DOCKER_HOST"),
    ],
)
def test_each_unhappy_engine_has_its_remedy(
    programs: fakes.Programs, info: fakes.Answer | None, message: str, remedy: str
) -> None:
    if info:
        programs.add("docker", {"info*": info})
    error = complaint(require_engine)
    assert message in error.message
    assert remedy in error.remedy


def test_a_remote_engine_is_not_started_here(programs: fakes.Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.1:2375")
    programs.add("docker", {"info*": fakes.broken_info("Cannot connect to the Docker daemon at tcp://192.0.2.1:2375.")})
    engine = find_engine()
    assert not engine.local
    assert "tcp://192.0.2.1:2375" in complaint(require_engine).remedy


@pytest.mark.parametrize(
    ("version", "said"),
    [("v2.24.6", ""), ("2.26.1-4", ""), ("5.0", ""), ("v2.24.5", "2.24.5 is too old"), ("", "is not installed")],
)
def test_which_compose_is_new_enough(programs: fakes.Programs, version: str, said: str) -> None:
    plugins = [{"Name": "compose", "Version": version}] if version else []
    programs.add("docker", {"info*": fakes.good_info(ClientInfo=fakes.client(plugins=plugins))})
    assert find_engine().compose_serves is not bool(said)
    if said:
        error = complaint(require_compose)
        assert f"{said}: the lab needs docker compose 2.24.6" in error.message
        assert "./lab setup" in error.remedy


@pytest.mark.parametrize(
    "question",
    [
        lambda: Compose(Path(), {}).listed(),
        lambda: Compose(Path(), {}).remove(["stress"]),
        lambda: is_here("looplab/stress:0.1.0"),
        lambda: images_of(["looplab/stress:0.1.0"]),
    ],
)
def test_silence_does_not_mean_that_nothing_is_there(
    programs: fakes.Programs, monkeypatch: pytest.MonkeyPatch, question: Callable[[], object]
) -> None:
    """A load would run on after its run, and an image that is here be built again."""
    programs.script("docker", "exec /bin/sleep 20")
    monkeypatch.setattr(engine, "ANSWER_TIMEOUT_S", 0.2)
    monkeypatch.setattr(compose, "DOWN_TIMEOUT_S", 0.2)
    with pytest.raises(MachineError, match="no answer within") as error:
        question()
    assert "./lab down" in error.value.remedy
