"""A machine as people have it: its own kernel, systemd, control groups v2, its own engine, and a lab from a bundle.

LAB_VM=debian13 ./lab test -- tests/system/test_lab_vm.py -s   (as root, at most 40 minutes where QEMU emulates)
What was done to the system is judged, times are not. The tests go on from each other, in this order.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.e2e_lab import Lab, copy_of_checkout
from support.places import ROOT
from support.run_checks import treatments
from support.vm_disk import make_disk
from support.whole_vm import Machine
from support.wire import TapWire, call

MEMORY_MB = 4096
BUNDLE, CHECKOUT = "lab.bundle", "lab.tar"
# Debian 12 has no Compose plugin of its own.
PLUGIN = "docker-compose"
WHERE = '{{range .ClientInfo.Plugins}}{{if eq .Name "compose"}}{{.Path}}{{end}}{{end}}'


def make_stick(folder: Path, bundle: Path) -> Path:
    """An ext4 file system with the bundle, a clone of this checkout as it stands, and this machine's Compose."""
    stick, image = folder / "stick", folder / "stick.ext4"
    stick.mkdir()
    call("git", "clone", "-q", "--depth=1", f"file://{ROOT}", str(folder / "lab"))
    copy_of_checkout(folder / "lab", as_set_up=False)
    call("tar", "-C", str(folder), "-cf", str(stick / CHECKOUT), "lab")
    (stick / BUNDLE).hardlink_to(bundle)
    shutil.copy(call("docker", "info", "--format", WHERE), stick / PLUGIN)
    call("mke2fs", "-q", "-t", "ext4", "-d", str(stick), str(image), f"{bundle.stat().st_size // 2**20 + 400}M")
    return image


pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="a disk of packages and network namespaces need root"),
    pytest.mark.flag("LAB_VM"),
    pytest.mark.timeout(3600),
]
WANTED = ("scenario0", "scenario1", "scenario5", "twin", "asip")
# Without a registry Compose reads which images stand in (docs/platforms.md).
SWEEP = "COMPOSE_ENV_FILES=.env,.env.machine INTERVALS_MS='200 100' MESSAGES=10 REPETITIONS=1"


class LabMachine:
    """Commands in the checkout of the machine."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def run(self, command: str, *, check: bool = True, timeout_s: float = 60.0) -> str:
        return self.machine.run(f"cd lab && {command}", check=check, timeout_s=timeout_s)

    def measured(self, words: str, sudo: str = "") -> list[dict[str, Any]]:
        """Run documents of `./lab run`; each must be valid."""
        said = self.run(f"{sudo} ./lab run {words} --json 2>run.log || cat run.log", timeout_s=120)
        assert "{" in said, said
        runs: list[dict[str, Any]] = json.loads(said[said.index("{") : said.rindex("}") + 1])["runs"]
        assert all(run["valid"] for run in runs), [run["invalid_because"] for run in runs]
        return runs

    def roots_files(self) -> str:
        return self.run("find . -user root -o -group root")


@pytest.fixture(scope="module")
def vm(session_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabMachine]:
    """The machine, up, with the checkout in its user's home and the stick on /mnt."""
    folder = tmp_path_factory.mktemp("lab-vm")
    disk = make_disk(os.environ["LAB_VM"]).copy_to(folder)
    session_lab.run("bundle", str(folder / BUNDLE), *WANTED, timeout_s=900, code=0)
    stick = f"file={make_stick(folder, folder / BUNDLE)},format=raw,if=virtio,readonly=on"
    number = os.getpid() % 200 + 20
    with TapWire(number) as wire, Machine(wire, folder, disk, ["-drive", stick], MEMORY_MB) as machine:
        machine.run(f"sudo mount -o ro /dev/vdb /mnt && tar -xf /mnt/{CHECKOUT} && chmod go+rx .")
        if "yes" not in machine.run("docker compose version >/dev/null 2>&1 && echo yes", check=False):
            machine.run(f"sudo install -D /mnt/{PLUGIN} /usr/libexec/docker/cli-plugins/{PLUGIN}")
        yield LabMachine(machine)


def test_the_bundle_is_loaded(vm: LabMachine) -> None:
    assert "No network is needed from now on" in vm.run(f"sudo ./lab load /mnt/{BUNDLE}", timeout_s=120)


def test_the_doctor_finds_all_it_needs(vm: LabMachine) -> None:
    checks = {check["name"]: check for check in json.loads(vm.run("sudo ./lab doctor --json"))["checks"]}
    assert "cgroup v2" in checks["Docker engine"]["found"]
    granted = ("rtprio limit", "SCHED_FIFO", "Control group", "Docker Compose")
    assert {name: checks[name]["state"] for name in granted} == dict.fromkeys(granted, "ok")


@pytest.mark.parametrize("fidelity", ["thesis", "corrected"])
def test_scenario5(vm: LabMachine, fidelity: str) -> None:
    (run,) = vm.measured(f"scenario5 --quick --fidelity {fidelity}", sudo="sudo")
    found = treatments(run)
    # How long bridge and robot waited for a processor is a time.
    assert [what for what in found if not found[what]["verified"]] in ([], ["robot untouched by the load"])
    assert run["environment"]["cgroup"] == "v2"


def test_a_user_of_the_group_docker(vm: LabMachine) -> None:
    assert "permission denied" in vm.run("./lab run scenario0 --quick", check=False)
    vm.run("sudo usermod -aG docker $USER")
    vm.measured("scenario0 --quick")
    assert vm.roots_files() == ""


def test_plain_compose(vm: LabMachine) -> None:
    vm.run(f"{SWEEP} docker compose --profile scenario1 up --detach", timeout_s=120)
    vm.run("docker wait looplab-scenario1-1")
    run = json.loads(vm.run("cat $(ls -d results/*scenario1 | tail -n 1)/run.json"))
    assert run["valid"], run["invalid_because"]
    assert [(cell["interval_ms"], cell["sent"]) for cell in run["cells"]] == [(200, 10), (100, 10)]


def test_weights_are_those_of_cgroup_v2(vm: LabMachine) -> None:
    """What looks on is at the top, beside the group of the measured parts, with a low weight; 100 is the usual one."""
    for name, group in (("broker", "/system.slice"), ("exporter", ""), ("prometheus", "")):
        process = vm.run(f"docker inspect --format '{{{{.State.Pid}}}}' looplab-{name}-1").strip()
        place = vm.run(f"cut -d: -f3 /proc/{process}/cgroup").strip()
        weight = int(vm.run(f"cat /sys/fs/cgroup{place}/cpu.weight"))
        assert place.rpartition("/")[0] == group
        assert weight < 50 if name != "broker" else weight == 100, name


@pytest.mark.parametrize("name", ["twin", "asip"])
def test_an_experiment(vm: LabMachine, name: str) -> None:
    vm.measured(f"{name} --quick")


def test_nothing_is_left(vm: LabMachine) -> None:
    vm.run("./lab down")
    assert vm.run("docker ps --all --quiet; docker network ls --quiet --filter type=custom") == ""
    # What Prometheus and the passwords are kept in has a name.
    assert {volume.partition("_")[0] for volume in vm.run("docker volume ls --quiet").split()} == {"looplab"}
    assert vm.roots_files() == ""


# Of a user's own rootless engine, which lives as long as the user's session.
ROOTLESS = "DOCKER_HOST=unix:///run/user/$(id -u)/docker.sock"


@pytest.mark.skipif(os.environ.get("LAB_VM") != "debian13", reason="this engine is on debian13's disk")
def test_a_rootless_engine_runs_what_needs_no_priority(vm: LabMachine) -> None:
    vm.run("sudo loginctl enable-linger $USER")
    # Its last step, a Docker context, wants the docker command in this folder.
    vm.run("PATH=$PATH:/usr/share/docker.io/contrib dockerd-rootless-setuptool.sh install --force", check=False)
    vm.run("systemctl --user is-active docker")
    vm.run(f"{ROOTLESS} ./lab load /mnt/{BUNDLE}", timeout_s=120)
    for _second_too in range(2):
        vm.measured("scenario0 --quick", ROOTLESS)
    said = vm.run(f"{ROOTLESS} ./lab run scenario5 --quick --fidelity corrected", check=False, timeout_s=120)
    assert "broker scheduling policy: wanted SCHED_FIFO 90, found SCHED_OTHER" in " ".join(said.split())
    assert vm.run("find results answers ! -user $USER") == ""
    vm.run(f"{ROOTLESS} ./lab down")
