"""The doctor's judgement; unhappy engines, each with its remedy; which real-time limits an engine grants."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support import host_fakes as fakes

from looplab.errors import MachineError
from looplab.lab.docker.compose import Compose
from looplab.lab.docker.engine import Engine, find_engine, require_compose, require_engine
from looplab.lab.docker.images import images_of, is_here
from looplab.lab.machine import checks
from looplab.lab.machine.checks import FAIL, GIB, OK, WARN, Check, run_is_possible
from looplab.lab.machine.limits import (
    FIFO,
    GROUP,
    RT_BUDGET_US,
    RT_SHARES_US,
    RTPRIO,
    Limits,
    machine_variables,
    probe_limits,
)

ENGINE = Engine(server_version="28.0.4", cgroup_version=2, compose=(2, 30, 0))
LIMITS = Limits(watch_group="/")
PORTS = {"LAB_BROKER_PORT": 1883}


def host(
    *, cores: int = 4, memory_bytes: int = 8 * GIB, free_bytes: int = 50 * GIB, writable: bool = True
) -> list[Check]:
    """The findings on a machine of this size."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks.os, "sched_getaffinity", lambda _pid: range(cores))
        patch.setattr(checks.os, "sysconf", {"SC_PHYS_PAGES": memory_bytes, "SC_PAGE_SIZE": 1}.get)
        patch.setattr(checks.shutil, "disk_usage", lambda _folder: SimpleNamespace(free=free_bytes))
        patch.setattr(checks.os, "access", lambda _folder, _mode: writable)
        return list(checks.check_host(Path("results")))


def engine(**changes: object) -> list[Check]:
    return list(checks.check_engine(replace(ENGINE, **changes)))


def port(owner: str) -> list[Check]:
    return list(checks.check_ports(PORTS, {"LAB_BROKER_PORT": owner}))


def limits(*refused: str, **changes: object) -> list[Check]:
    return list(checks.check_limits(replace(LIMITS, refused=dict.fromkeys(refused, "no"), **changes)))


def everything() -> list[Check]:
    return [*host(), *engine(), *port(""), *limits()]


def test_a_good_machine_has_nothing_to_complain_of() -> None:
    # A rootless engine keeps its ports on loopback.
    found = [*everything(), *engine(server_version="27.5.1", rootless=True)]
    assert [check.name for check in found if check.state != OK] == []
    assert run_is_possible(everything())


@pytest.mark.parametrize(
    ("found", "name", "state", "words"),
    [
        (host(cores=1), "Processor", WARN, "second core"),
        (host(memory_bytes=GIB), "Memory", WARN, "--vm"),
        (host(free_bytes=10 * 2**20), "Disk", FAIL, "results/"),
        (host(free_bytes=500 * 2**20), "Disk", WARN, "space"),
        (host(writable=False), "Disk", FAIL, "chown"),
        (engine(trouble="no client"), "Docker engine", FAIL, "./lab setup"),
        (engine(trouble="no rights"), "Docker engine", FAIL, "usermod"),
        (engine(memory_limits=False), "Memory limits", WARN, "cgroup_enable=memory"),
        (engine(server_version="27.5.1"), "Loopback", WARN, "-d 127.0.0.0/8,172.17.0.0/16 -j DROP"),
        (engine(compose=(2, 6, 0)), "Docker Compose", FAIL, "./lab setup"),
        (port("mosquitto (process 7)"), "Port 1883", FAIL, "LAB_BROKER_PORT"),
        (port("container x of this lab"), "Port 1883", WARN, "./lab down"),
        (limits(unknown="no image"), "Real-time priority", WARN, "./lab setup"),
        (limits(RTPRIO), "rtprio limit", WARN, "CAP_SYS_RESOURCE"),
        (limits(FIFO, rt_group_sched=True, rt_budget_us=0), "SCHED_FIFO", WARN, "sudo ./lab setup"),
        (limits(GROUP), "Control group", WARN, "--cpu-rt-runtime"),
    ],
)
def test_each_finding_has_its_state_and_remedy(found: Iterable[Check], name: str, state: str, words: str) -> None:
    (check,) = (check for check in found if check.name == name)
    assert check.state == state
    assert words in check.remedy
    assert run_is_possible([check]) is (state != FAIL)


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
    with pytest.raises(MachineError, match=message) as error:
        require_engine(find_engine())
    assert remedy in error.value.remedy


@pytest.mark.parametrize(
    ("version", "said"),
    [("v2.24.6", ""), ("2.26.1-4", ""), ("5.0", ""), ("v2.24.5", "2.24.5 is too old"), ("", "is not installed")],
)
def test_which_compose_is_new_enough(programs: fakes.Programs, version: str, said: str) -> None:
    plugins = [{"Name": "compose", "Version": version}] if version else []
    programs.add("docker", {"info*": fakes.good_info(ClientInfo=fakes.client(plugins=plugins))})
    assert find_engine().compose_serves is not bool(said)
    if said:
        with pytest.raises(MachineError, match=f"{said}: the lab needs docker compose 2.24.6") as error:
            require_compose(find_engine())
        assert "./lab setup" in error.value.remedy


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
    monkeypatch.setattr("looplab.lab.docker.engine.ANSWER_TIMEOUT_S", 0.2)
    monkeypatch.setattr("looplab.lab.docker.compose.DOWN_TIMEOUT_S", 0.2)
    with pytest.raises(MachineError, match="no answer within") as error:
        question()
    assert "./lab down" in error.value.remedy


IMAGE = "looplab/treatments:1"
GOOD: fakes.Answer = ("", "", 0)
REFUSED: fakes.Answer = ("", "PermissionError: [Errno 1] Operation not permitted", 1)


@pytest.fixture(autouse=True)
def _no_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host without control groups."""
    monkeypatch.setenv("LAB_HOST", str(tmp_path))


def cgroup_v1(tmp_path: Path, budget_us: int) -> None:
    top = tmp_path / "sys/fs/cgroup/cpu"
    (top / "docker").mkdir(parents=True)
    (top / "cpu.rt_runtime_us").write_text("950000\n")
    (top / "docker" / "cpu.rt_runtime_us").write_text(f"{budget_us}\n")


# What the lab asks an engine: whether it rations real-time priority, then for each right.
RATION, RTPRIO_LIMIT, FIFO_RIGHT = "*rt_runtime_us*", "*--ulimit=rtprio*", "*--cap-add=SYS_NICE*"
OWN_GROUP, TOP_GROUP = "*--cgroup-parent=looplab.slice*", "*'--cgroup-parent=/ '*"
GRANTED: dict[str, fakes.Answer] = {
    "info*": fakes.good_info(),
    "'image inspect'*": GOOD,
    RATION: ("\n", "", 0),
    RTPRIO_LIMIT: GOOD,
    "*--cpu-rt-runtime*": GOOD,
    **dict.fromkeys((FIFO_RIGHT, OWN_GROUP, TOP_GROUP, "*--cgroup-parent=-.slice*"), GOOD),
}


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache/limits.json"


def probe(cache: Path) -> Limits:
    return probe_limits(find_engine(), IMAGE, cache)


NO_RTPRIO: fakes.Answer = ("", fakes.RTPRIO_REFUSED, 125)
NO_GROUP: fakes.Answer = ("", "docker: Error response from daemon: cpu.rt_runtime_us: invalid argument", 125)
AS_ROOT = {"LAB_RTPRIO": "0", "LAB_PRIORITY_UID": "0"}
NO_RLIMIT = "error setting rlimit type 14: operation not permitted"
RATIONED = {RATION: ("/sys/fs/cgroup/cpu/cpu.rt_runtime_us\n", "", 0), FIFO_RIGHT: REFUSED}
ALONE: dict[str, str | None] = {"LAB_FAR_GROUP": "", "LAB_WATCH_GROUP": "", "LAB_WATCH_WEIGHT": "0"}
# What an engine refuses, the budget of its group, what it reports; then the variables beside LAB_WATCH_GROUP=/, where
# None unsets one, and a reason by name.
FOUND: dict[str, tuple[dict[str, Any], int | None, Mapping[str, str | None], tuple[str, str]]] = {
    "grants all": ({}, None, {}, ("", "")),
    "no rtprio": ({RTPRIO_LIMIT: NO_RTPRIO}, None, AS_ROOT, ("rtprio", NO_RLIMIT)),
    # A capability that gives nothing is not held.
    "no priority": (
        {RTPRIO_LIMIT: NO_RTPRIO, FIFO_RIGHT: REFUSED},
        None,
        {"LAB_RTPRIO": "0"},
        ("fifo", "Operation not permitted"),
    ),
    # The budget is that of the engine's group: what needs some stays there.
    "rationed": (RATIONED, RT_BUDGET_US, {"LAB_RATIONED": "on", "LAB_FAR_GROUP": ""}, ("", "")),
    "too small a budget": (RATIONED, RT_SHARES_US - 1, {}, ("fifo", "too small a real-time budget")),
    # A low weight beside the measured parts would stall them.
    "no other group": (
        {OWN_GROUP: NO_GROUP, TOP_GROUP: NO_GROUP},
        None,
        ALONE,
        ("group", "cpu.rt_runtime_us: invalid argument"),
    ),
    "top to itself": ({TOP_GROUP: NO_GROUP}, None, {"LAB_WATCH_GROUP": None}, ("", "")),
    "systemd": ({"info*": fakes.good_info(CgroupDriver="systemd")}, None, {"LAB_WATCH_GROUP": "-.slice"}, ("", "")),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_an_engine_grants_becomes_variables_and_reasons(
    programs: fakes.Programs, tmp_path: Path, cache: Path, name: str
) -> None:
    """A granted priority sets none: the value of .env stands."""
    refused, budget_us, more, (what, reason) = FOUND[name]
    variables = {name: value for name, value in {"LAB_WATCH_GROUP": "/", **more}.items() if value is not None}
    if budget_us is not None:
        cgroup_v1(tmp_path, budget_us)
    programs.add("docker", {**GRANTED, **refused})
    limits = probe(cache)
    assert machine_variables(limits) == variables
    assert reason in limits.refused.get(what, "")
    with_budget = [call for call in programs.calls("docker") if "--cpu-rt-runtime" in call]
    assert bool(with_budget) == ("LAB_RATIONED" in variables)


def test_limits_are_remembered_until_the_engine_changes(programs: fakes.Programs, cache: Path) -> None:
    programs.add("docker", GRANTED)
    first = probe(cache)
    runs = [call for call in programs.calls("docker") if call.startswith("run")]
    assert probe(cache) == first
    assert [call for call in programs.calls("docker") if call.startswith("run")] == runs
    programs.add("docker", {**GRANTED, **RATIONED, "info*": fakes.good_info(ServerVersion="28")})
    assert probe(cache) != first


def test_without_an_image_nothing_is_claimed(programs: fakes.Programs, cache: Path) -> None:
    programs.add("docker", {"info*": fakes.good_info(), "'image inspect'*": ("[]", "Error: No such image", 1)})
    limits = probe(cache)
    assert limits.unknown
    assert not limits.grants("fifo")
    assert not cache.exists()
    assert machine_variables(limits)["LAB_RTPRIO"] == "0"
