"""The doctor's judgement and its two ways of showing it."""

import dataclasses
import json
import re
from pathlib import Path

import pytest

from looplab.lab.commands.doctor import report, table
from looplab.lab.docker.engine import Engine
from looplab.lab.docker.images import Registry
from looplab.lab.machine.checks import FAIL, OK, WARN, Check, check_machine, run_is_possible
from looplab.lab.machine.facts import HostFacts, Machine, PortUse, SerialDevice
from looplab.lab.machine.limits import Limits

HOST = HostFacts("Debian 12", "6.1.0", "x86_64", "A Processor", 4, 8 * 2**30, "tsc", 50 * 2**30, True)
ENGINE = Engine(server_version="28.0.4", client_version="28.0.4", cgroup_version=2, compose=(2, 30, 0))
LIMITS = Limits(known=True, rtprio_max=99, fifo=True, pidfd_getfd=True, own_group=True, watch_group="/")
GOOD = Machine(ENGINE, HOST, LIMITS, (PortUse("LAB_BROKER_PORT", 1883, False),), Registry("", True))


def found(machine: Machine, name: str, root: Path, images: dict[str, bool] | None = None) -> Check:
    return next(check for check in check_machine(root, machine, images) if check.name == name)


def changed(**changes: object) -> Machine:
    """Return the good machine with other ports or registry, or with other facts: host={…}, engine={…}, limits={…}."""
    parts = {
        name: dataclasses.replace(getattr(GOOD, name), **facts) if isinstance(facts, dict) else facts
        for name, facts in changes.items()
    }
    return dataclasses.replace(GOOD, **parts)


NO_BUDGET = {"fifo": False, "rt_group_sched": True, "rt_budget_us": 0}
SILENT = changed(registry=Registry("", False, "no such host"))


def with_port(owner: str) -> Machine:
    return changed(ports=(PortUse("LAB_BROKER_PORT", 1883, True, owner),))


def test_a_good_machine_has_nothing_to_complain_of(tmp_path: Path) -> None:
    checks = check_machine(tmp_path, GOOD, {"prom/prometheus:1": True})
    assert [check.name for check in checks if check.state != OK] == []
    assert run_is_possible(checks)


@pytest.mark.parametrize(
    ("machine", "name", "state", "words"),
    [
        (changed(host={"cores": 1}), "Processor", WARN, "second core"),
        (changed(host={"memory_bytes": 2**30}), "Memory", WARN, "--vm"),
        (changed(host={"clock_source": "hpet"}), "Clock source", WARN, "clocksource"),
        (changed(host={"disk_free_bytes": 10 * 2**20}), "Disk", FAIL, "results/"),
        (changed(host={"disk_free_bytes": 500 * 2**20}), "Disk", WARN, "space"),
        (changed(host={"results_writable": False}), "Disk", FAIL, "chown"),
        (changed(engine=Engine(trouble="no client")), "Docker engine", FAIL, "./lab setup"),
        (changed(engine=Engine(trouble="no rights")), "Docker engine", FAIL, "usermod"),
        (changed(engine={"compose": (2, 6, 0)}), "Docker Compose", FAIL, "./lab setup"),
        (with_port("mosquitto (process 7)"), "Port 1883", FAIL, "LAB_BROKER_PORT"),
        (with_port("container x of this lab"), "Port 1883", WARN, "./lab down"),
        (changed(limits=Limits()), "Real-time priority", WARN, "./lab setup"),
        (changed(limits={"rtprio_max": 0, "rtprio_refusal": "no"}), "rtprio limit", WARN, "CAP_SYS_RESOURCE"),
        (changed(limits=NO_BUDGET), "SCHED_FIFO", WARN, "sudo ./lab setup"),
        (changed(limits={"own_group": False}), "Control group", WARN, "--cpu-rt-runtime"),
        (changed(limits={"watch_group": ""}), "Control group", WARN, "beside its own group"),
        (changed(limits={"fifo": False}), "SCHED_FIFO", WARN, "rt_group_sched=0"),
        (changed(limits={"pidfd_getfd": False}), "Socket options", WARN, "pidfd_getfd"),
        (SILENT, "Image registry", WARN, "./lab load"),
    ],
)
def test_each_finding_has_its_state_and_remedy(
    tmp_path: Path, machine: Machine, name: str, state: str, words: str
) -> None:
    check = found(machine, name, tmp_path)
    assert check.state == state
    assert words in check.remedy
    assert run_is_possible([check]) is (state != FAIL)


def test_missing_images_are_named(tmp_path: Path) -> None:
    images = {"prom/prometheus:1": True, "grafana/grafana:12": False}
    assert "./lab setup" in found(GOOD, "Upstream images", tmp_path, images).remedy
    assert "without it" in found(SILENT, "Upstream images", tmp_path, images).remedy


def test_windows_line_ends_stop_a_run(tmp_path: Path) -> None:
    (tmp_path / "compose/scenarios/scenario5").mkdir(parents=True)
    params = tmp_path / "compose/scenarios/scenario5/params.env"
    params.write_bytes(b"MESSAGES=100\n")
    assert found(GOOD, "Line ends", tmp_path).state == OK
    params.write_bytes(b"MESSAGES=100\r\n")
    check = found(GOOD, "Line ends", tmp_path)
    assert check.state == FAIL
    assert "compose/scenarios/scenario5/params.env" in check.found


def test_serial_devices_are_shown(tmp_path: Path) -> None:
    device = SerialDevice("/dev/serial/by-id/usb-1a86", "/dev/ttyUSB0", 20)
    assert "/dev/serial/by-id/usb-1a86" in found(changed(host={"serial": (device,)}), "Serial devices", tmp_path).found


def test_the_table_keeps_to_80_columns_and_ends_with_the_verdict(tmp_path: Path) -> None:
    bad = changed(engine=Engine(trouble="no rights", detail="x" * 200), registry=None, limits=Limits())
    checks = check_machine(tmp_path, bad)
    text = table(checks)
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "\x1b" not in text
    assert text.splitlines()[-1].startswith("No run is possible yet: Docker engine")
    assert table(check_machine(tmp_path, GOOD)).splitlines()[-1] == "A run is possible."
    for check in checks:
        assert check.name in text


def test_colour_changes_no_word(tmp_path: Path) -> None:
    checks = check_machine(tmp_path, GOOD)
    coloured = table(checks, colour=True)
    assert coloured != table(checks)
    assert re.sub(r"\x1b\[(3[123]|0)m", "", coloured) == table(checks)


def test_the_report_is_one_document(tmp_path: Path) -> None:
    document = json.loads(json.dumps(report(GOOD, check_machine(tmp_path, GOOD))))
    assert document["run_possible"] is True
    assert {"name", "found", "state", "remedy", "why"} == set(document["checks"][0])
    assert document["cores"] == 4
