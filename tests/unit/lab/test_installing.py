"""From nothing to an engine, a Compose and a base image: the real scripts on a host of fake programs."""

import os
import subprocess
import threading
from pathlib import Path

import pytest
from support import host_fakes as fakes
from support.places import ROOT

from looplab.errors import LabError, MachineError
from looplab.lab.docker.engine import Engine
from looplab.lab.machine.installing import ensure_compose, ensure_engine
from looplab.lab.machine.limits import RT_BUDGET_US
from looplab.lab.programs import run_script

TOOLS = (
    "cat", "chmod", "cp", "date", "dirname", "grep", "head", "mkdir", "mv", "rm", "sed", "setsid", "sh", "sleep",
    "sort", "tail", "uname",
)  # fmt: skip
POLICY = "{package}:\n  Installed: (none)\n  Candidate: {candidate}\n"


class Host:
    """A host that installs by a fake apt-get; `docker` and `dockerd` come with its packages."""

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.programs = fakes.Programs(place / "bin")
        self.programs.borrow(*TOOLS)
        self.place = place
        self._monkeypatch = monkeypatch
        for folder in ("sys/fs/cgroup", "var/log", "parked"):
            (place / folder).mkdir(parents=True)
        (place / "sys/fs/cgroup/cgroup.procs").touch()
        monkeypatch.setenv("PATH", str(self.programs.folder))
        monkeypatch.setenv("LAB_HOST", str(place))
        monkeypatch.setenv("LAB_ROOT", str(place))
        self.become(0)
        self.policies()
        self.programs.script("apt-get", f'case "$*" in *install*) mv {place}/parked/* {self.programs.folder} ;; esac')

    def become(self, user_id: int) -> None:
        self._monkeypatch.setattr("os.geteuid", lambda: user_id)
        self.programs.add("id", {"-u": (f"{user_id}\n", "", 0)})

    def policies(self, **candidates: str) -> None:
        """What apt-cache knows, with _ for - in the names."""
        lines = {
            f"'policy {name.replace('_', '-')}'": (POLICY.format(package=name, candidate=candidate), "", 0)
            for name, candidate in candidates.items()
        }
        self.programs.add("apt-cache", {**lines, "policy*": ("", "", 0)})

    def engine(self, *, daemon: str = "exit 1", installed: bool = True) -> None:
        """A client that answers once the daemon has run; both in the packages only unless `installed`."""
        good, silent = fakes.good_info(), fakes.broken_info(fakes.NO_ANSWER_TEXT)
        up, place = self.place / "up", self.place
        for name, (out, _, _) in (("good", good), ("silent", silent)):
            (place / name).write_text(out)
        self.programs.script(
            "docker",
            f'if [ -e {up} ]; then cat {place}/good; else cat {place}/silent; echo "{silent[1]}" >&2; exit 1; fi',
        )
        self.programs.script("dockerd", daemon.replace("UP", f"echo >{up}; exec sleep 1"))
        if not installed:
            for name in ("docker", "dockerd"):
                (self.programs.folder / name).rename(place / "parked" / name)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(tmp_path, monkeypatch)


def install_packages(*words: str) -> None:
    run_script("install-packages", *words, title="Installing an example")


def refusal(call: object) -> LabError:
    with pytest.raises(MachineError) as caught:
        call()  # type: ignore[operator]
    return caught.value


def test_root_on_debian_gets_one_installed_and_started(host: Host) -> None:
    host.engine(daemon="UP", installed=False)
    host.policies(docker_cli="26.1.5", docker_other="(none)")
    assert ensure_engine().serves
    assert host.programs.calls("apt-get")[-1].endswith("install docker.io iptables procps docker-cli")
    # Only scripts/stop-engine needs to know which engine the lab started.
    assert (host.place / ".cache/engine.pid").read_text().strip().isdigit()
    # One that serves is left alone.
    before = host.programs.calls("dockerd"), host.programs.calls("apt-get")
    assert ensure_engine().serves
    assert (host.programs.calls("dockerd"), host.programs.calls("apt-get")) == before


def test_a_real_time_budget_is_given_where_the_kernel_rations(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    """Before the first container; where it is refused, root has done what sudo would do."""
    top = host.place / "sys/fs/cgroup/cpu"
    top.mkdir()
    (top / "cpu.rt_runtime_us").touch()
    host.engine(daemon="echo started >&2; UP")
    ensure_engine()
    budget = top / "docker/cpu.rt_runtime_us"
    assert budget.read_text() == str(RT_BUDGET_US)
    # An engine that hands out budgets itself lets no container into another group than its own.
    assert host.programs.calls("dockerd") == [""]
    assert host.programs.calls("apt-get") == []
    assert (host.place / "var/log/looplab-dockerd.log").read_text() == "started\n"
    budget.unlink()
    budget.mkdir()
    for user_id, remedy in ((1000, "Run sudo ./lab setup"), (0, "The group above it")):
        host.become(user_id)
        ensure_engine()
        assert remedy in capsys.readouterr().err


def test_a_daemon_that_ends_at_once_shows_its_reason(host: Host) -> None:
    host.engine(daemon="echo failed to start daemon: no space left; echo '(exit status 4)'; exit 1")
    error = refusal(ensure_engine)
    assert "no space left" in error.message
    assert str(host.place / "var/log/looplab-dockerd.log") in error.remedy


@pytest.mark.parametrize(
    ("user_id", "apt", "endpoint", "installed", "remedy"),
    [
        (1000, True, "", False, "sudo ./lab setup"),
        (0, False, "", False, "package manager"),
        (1000, True, "", True, "systemctl start docker"),
        (0, True, "tcp://192.0.2.1:2375", True, "DOCKER_HOST"),
    ],
)
def test_a_lab_that_may_not_install_names_the_next_step(
    host: Host, monkeypatch: pytest.MonkeyPatch, user_id: int, apt: bool, endpoint: str, installed: bool, remedy: str
) -> None:
    host.engine(installed=installed)
    host.become(user_id)
    if not apt:
        (host.programs.folder / "apt-get").unlink()
    if endpoint:
        monkeypatch.setenv("DOCKER_HOST", endpoint)
    assert remedy in refusal(ensure_engine).remedy
    assert host.programs.calls("dockerd") == host.programs.calls("apt-get") == []


def test_apts_reason_is_passed_on(host: Host) -> None:
    host.programs.script("apt-get", 'case "$*" in *install*) echo "E: Unable to locate package x"; exit 100 ;; esac')
    error = refusal(lambda: install_packages("x"))
    assert error.message == "apt-get could not install x: Unable to locate package x"
    assert "./lab load" in error.remedy
    host.become(1000)
    assert "sudo apt-get install" in refusal(lambda: install_packages("x")).remedy


def compose_in_container(host: Host, version: str, download: str = "") -> None:
    """`docker cp` puts a plugin of that version in place, which `docker info` shows from then on."""
    for name, plugins in (("without", []), ("with", [{"Name": "compose", "Version": version}])):
        (host.place / name).write_text(fakes.good_info(ClientInfo=fakes.client(plugins=plugins))[0])
    host.programs.script(
        "docker",
        'case "$1" in',
        f"info) if [ -e {host.place}/installed ]; then cat {host.place}/with; else cat {host.place}/without; fi ;;",
        f"run) {download or ':'} ;;",
        f'cp) printf "%s\\n" "#!/bin/sh" "echo {version}" >"$3"; : >{host.place}/installed ;;',
        "esac",
    )
    host.become(1000)


@pytest.mark.parametrize(
    ("version", "download", "message"),
    [
        ("2.20.0", "", "does not work here: 2.20.0"),
        ("2.26.1", "echo 'E: Temporary failure resolving' >&2; exit 100", "Temporary failure resolving"),
    ],
)
def test_a_compose_that_does_not_serve_is_not_kept(
    host: Host, monkeypatch: pytest.MonkeyPatch, version: str, download: str, message: str
) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(host.place / "docker"))
    compose_in_container(host, version, download)
    assert message in refusal(lambda: ensure_compose(Engine(), lambda: "base:1")).message
    assert not list((host.place / "docker/cli-plugins").glob("*"))
    assert any(call.startswith("rm --force") for call in host.programs.calls("docker"))


@pytest.mark.parametrize(
    ("candidates", "package"),
    [
        ({"docker_compose": "1.29.2-3"}, None),  # Debian 12
        ({"docker_compose": "2.26.1-4"}, "docker-compose"),  # Debian 13
        ({"docker_compose_v2": "2.24.6+ds1-0ubuntu2", "docker_compose": "1.29.2-6"}, "docker-compose-v2"),
        ({"docker_compose_plugin": "5:2.29.7-1", "docker_compose": "1.29.2-3"}, "docker-compose-plugin"),
        ({"docker_compose": "(none)"}, None),
    ],
)
def test_root_takes_a_package_that_is_new_enough(host: Host, candidates: dict[str, str], package: str | None) -> None:
    # Without such a package the script turns to a container, which this engine refuses.
    compose_in_container(host, "2.26.1", "exit 1")
    host.become(0)
    host.policies(**candidates)
    subprocess.run([ROOT / "scripts/install-compose"], capture_output=True, check=False)
    installs = [call.split()[-1] for call in host.programs.calls("apt-get") if "install" in call]
    assert installs == ([package] if package else [])


def test_an_engine_with_other_containers_stays(tmp_path: Path) -> None:
    programs = fakes.Programs(tmp_path / "bin")
    for folder in ("var/run", ".cache"):
        (tmp_path / folder).mkdir(parents=True)
    programs.script("dockerd", "while :; do sleep 0.05; done")
    listing = 'echo "1 broker localhost/looplab/broker:1 looplab"; echo "2 shop shop:1 shop"'
    programs.script("docker", f'case "$*" in *"ps --quiet"*) ;; *" ps "*) {listing} ;; esac', "exit 0")
    with subprocess.Popen([programs.folder / "dockerd"]) as daemon:
        # A process that has ended is there until somebody waits for it.
        threading.Thread(target=daemon.wait, daemon=True).start()
        for note in ("var/run/docker.pid", ".cache/engine.pid"):
            (tmp_path / note).write_text(f"{daemon.pid}\n")

        def stop(*words: str) -> tuple[int, str]:
            """The exit code, and what standard error holds; whatever engine DOCKER_HOST names."""
            environment = {"PATH": f"{programs.folder}:/usr/bin:/bin", "DOCKER_HOST": "ssh://elsewhere"}
            environment |= {"LAB_HOST": str(tmp_path), "LAB_ROOT": str(tmp_path)}
            command = [str(ROOT / "scripts/stop-engine"), *words]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            return done.returncode, done.stderr

        code, error = stop()
        assert (code, daemon.poll()) == (3, None)
        assert "not the lab's: shop" in error
        assert stop("--all") == (0, "")
        calls = programs.calls("docker")
        assert all(call.startswith("--host unix:///var/run/docker.sock ") for call in calls)
        assert [call.partition(" rm ")[2] for call in calls if " rm " in call] == ["--force 1"]
        assert not (tmp_path / ".cache/engine.pid").exists()


IMAGE = "debian:trixie-slim"
SECURITY = "deb http://house.test/debian-security trixie-security main"


@pytest.fixture
def programs(programs: fakes.Programs, monkeypatch: pytest.MonkeyPatch) -> fakes.Programs:
    monkeypatch.setenv("PATH", f"{programs.folder}:{os.defpath}:/usr/sbin:/sbin")
    monkeypatch.setenv("LAB_DEBIAN_MIRROR", "http://house.test/debian/")
    programs.add("id", {"-u": ("0\n", "", 0)})
    programs.add("docker", {"import*": ("", "", 0)})
    programs.add("apt-get", {"*": ("", "", 0)})
    return programs


def make_base_image() -> str:
    return run_script("make-base-image", IMAGE, title="Building")


def fake_mmdebstrap(programs: fakes.Programs, script: str) -> None:
    programs.script("mmdebstrap", "sources=$(cat)", f'echo "$sources" >>{programs.folder}/sources', script)


def test_the_base_takes_security_updates_and_is_imported(programs: fakes.Programs) -> None:
    fake_mmdebstrap(programs, "echo I: done")
    make_base_image()
    sources = (programs.folder / "sources").read_text().splitlines()
    assert sources == ["deb http://house.test/debian trixie main", SECURITY]
    (imported,) = programs.calls("docker")
    assert imported.endswith("root.tar debian:trixie-slim")
    assert "LABEL looplab.origin=built" in imported


def test_a_mirror_without_security_updates_serves_and_is_named(programs: fakes.Programs) -> None:
    fake_mmdebstrap(programs, 'case $sources in *security*) echo "E: Failed to fetch it"; exit 25 ;; esac')
    said = make_base_image()
    assert len(programs.calls("docker")) == 1
    assert said.startswith("No security updates for the base image: http://house.test/debian-security ")


@pytest.mark.parametrize(
    ("script", "user", "reason", "remedy"),
    [
        ("echo 'E: X is not signed.'; echo 'E: mmdebstrap failed to run'; exit 25", 0, "X is not signed", "_MIRROR`"),
        ("exit 1", 0, "mmdebstrap failed", "`LAB_DEBIAN_MIRROR`"),
        ("", 1000, "needs root", "sudo ./lab setup"),
    ],
)
def test_a_base_that_cannot_be_built_gives_reason_and_remedy(
    programs: fakes.Programs, script: str, user: int, reason: str, remedy: str
) -> None:
    programs.add("id", {"-u": (f"{user}\n", "", 0)})
    fake_mmdebstrap(programs, script)
    with pytest.raises(LabError, match=reason) as caught:
        make_base_image()
    assert remedy in caught.value.remedy
    assert programs.calls("docker") == []
