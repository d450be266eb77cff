"""The doctor's judgement and its two ways of showing it."""

import json
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from support import host_fakes as fakes
from support.places import ROOT

from looplab.lab.checkout import Lab
from looplab.lab.commands.doctor import check_upstream, table
from looplab.lab.docker.engine import Engine, read_engine
from looplab.lab.machine import checks
from looplab.lab.machine.checks import FAIL, OK, WARN, Check, run_is_possible
from looplab.lab.machine.facts import HostFacts
from looplab.lab.machine.limits import FIFO, GROUP, RTPRIO, SOCKETS, Limits
from looplab.lab.programs import Outcome

HOST = HostFacts("Debian 12", "6.1.0", "x86_64", "A Processor", 4, 8 * 2**30, "tsc", 50 * 2**30, True)
ENGINE = Engine(server_version="28.0.4", client_version="28.0.4", cgroup_version=2, compose=(2, 30, 0))
LIMITS = Limits(watch_group="/")
PORTS = {"LAB_BROKER_PORT": 1883}


def host(**changes: object) -> list[Check]:
    return list(checks.check_host(replace(HOST, **changes)))


def engine(**changes: object) -> list[Check]:
    return list(checks.check_engine(replace(ENGINE, **changes)))


def port(owner: str) -> list[Check]:
    return list(checks.check_ports(PORTS, {"LAB_BROKER_PORT": owner}))


def limits(*refused: str, **changes: object) -> list[Check]:
    return list(checks.check_limits(replace(LIMITS, refused=dict.fromkeys(refused, "no"), **changes), ENGINE))


def everything() -> list[Check]:
    return [*host(), *engine(), *port(""), *limits(), checks.check_images([]), checks.check_serial(HOST)]


def test_a_good_machine_has_nothing_to_complain_of() -> None:
    assert [check.name for check in everything() if check.state != OK] == []
    assert run_is_possible(everything())


@pytest.mark.parametrize(
    ("found", "name", "state", "words"),
    [
        (host(cores=1), "Processor", WARN, "second core"),
        (host(memory_bytes=2**30), "Memory", WARN, "--vm"),
        (host(clock_source="hpet"), "Clock source", WARN, "clocksource"),
        (host(disk_free_bytes=10 * 2**20), "Disk", FAIL, "results/"),
        (host(disk_free_bytes=500 * 2**20), "Disk", WARN, "space"),
        (host(results_writable=False), "Disk", FAIL, "chown"),
        (engine(trouble="no client"), "Docker engine", FAIL, "./lab setup"),
        (engine(trouble="no rights"), "Docker engine", FAIL, "usermod"),
        (engine(selinux=True), "SELinux", OK, ""),
        (engine(proxy="http://ada:secret@proxy.example:3128"), "HTTP proxy", OK, ""),
        (engine(memory_limits=False), "Memory limits", WARN, "cgroup_enable=memory"),
        (engine(server_version="27.5.1"), "Loopback", WARN, "-d 127.0.0.0/8,172.17.0.0/16 -j DROP"),
        (engine(compose=(2, 6, 0)), "Docker Compose", FAIL, "./lab setup"),
        (port("mosquitto (process 7)"), "Port 1883", FAIL, "LAB_BROKER_PORT"),
        (port("container x of this lab"), "Port 1883", WARN, "./lab down"),
        (limits(unknown="no image"), "Real-time priority", WARN, "./lab setup"),
        (limits(RTPRIO), "rtprio limit", WARN, "CAP_SYS_RESOURCE"),
        (limits(FIFO, rt_group_sched=True, rt_budget_us=0), "SCHED_FIFO", WARN, "sudo ./lab setup"),
        (limits(FIFO), "SCHED_FIFO", WARN, "rt_group_sched=0"),
        (limits(SOCKETS), "Socket options", WARN, "pidfd_getfd"),
        (limits(GROUP), "Control group", WARN, "--cpu-rt-runtime"),
        (limits(watch_group=""), "Control group", WARN, "beside its own group"),
        ([checks.check_images(["prom/prometheus:1"])], "Upstream images", WARN, "./lab setup"),
    ],
)
def test_each_finding_has_its_state_and_remedy(found: Iterable[Check], name: str, state: str, words: str) -> None:
    (check,) = (check for check in found if check.name == name)
    assert check.state == state
    assert words in check.remedy
    assert run_is_possible([check]) is (state != FAIL)


def test_what_the_engine_says_of_its_kernel_and_proxy_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `docker info` of Fedora and of Raspberry Pi OS, and a client's config.json on a campus."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    info = {"ServerVersion": "28.0.4", "SecurityOptions": ["name=seccomp,profile=builtin", "name=selinux"]}

    def read(**more: object) -> Engine:
        return read_engine(Outcome(("docker", "info"), 0, json.dumps({**info, **more}), ""))

    assert (read().selinux, read().memory_limits, read().proxy) == (True, True, "")
    assert not read(MemoryLimit=False).memory_limits
    rootless = read(SecurityOptions=["name=rootless"], CgroupVersion="2")
    assert (rootless.rootless, rootless.cgroup_version) == (True, 2)
    (tmp_path / "config.json").write_text('{"proxies": {"default": {"httpProxy": "http://ada:secret@proxy:3128"}}}')
    (shown,) = (one for one in checks.check_engine(read()) if one.name == "HTTP proxy")
    assert shown.found.startswith("proxy:3128: ")
    assert read(HttpsProxy="http://engine:3128").proxy == "http://engine:3128"
    (tmp_path / "config.json").write_text("{")
    assert read().proxy == ""


def test_compose_files_that_do_not_fit_are_a_finding(programs: fakes.Programs, tmp_path: Path) -> None:
    shutil.copy(ROOT / ".env", tmp_path)
    (tmp_path / "results").mkdir()
    programs.add("docker", {"*config*": ("", "open /x/broker.typo.yaml: no such file or directory", 1)})
    check = check_upstream(Lab(tmp_path))
    assert (check.state, check.remedy.partition(" (")[0]) == (FAIL, "A variable chooses this file")


def test_a_rootless_engine_keeps_its_ports_on_loopback() -> None:
    assert "Loopback" not in {check.name for check in engine(server_version="27.5.1", rootless=True)}


def test_the_table_keeps_to_80_columns_and_ends_with_a_verdict() -> None:
    bad = [*host(), *engine(trouble="no answer", detail="x" * 200), *limits(unknown="none")]
    text = table(bad)
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "\x1b" not in text
    assert text.splitlines()[-1].startswith("No run is possible yet: Docker engine")
    assert table(everything()).splitlines()[-1] == "A run is possible."
    for check in bad:
        assert check.name in text
