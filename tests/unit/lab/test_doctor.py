"""The doctor's judgement and its two ways of showing it."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from looplab.lab.commands.doctor import table
from looplab.lab.docker.engine import Engine
from looplab.lab.machine import checks
from looplab.lab.machine.checks import FAIL, GIB, OK, WARN, Check, run_is_possible
from looplab.lab.machine.limits import FIFO, GROUP, RTPRIO, Limits

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


def test_the_table_keeps_to_80_columns_and_ends_with_a_verdict() -> None:
    bad = [*host(), *engine(trouble="no answer", detail="x" * 200), *limits(unknown="none")]
    text = table(bad)
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "\x1b" not in text
    assert text.splitlines()[-1].startswith("No run is possible yet: Docker engine")
    assert table(everything()).splitlines()[-1] == "A run is possible."
    for check in bad:
        assert check.name in text
