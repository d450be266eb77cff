"""From nothing to ready: what is installed and started, and where a person has to do it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support import host_fakes as fakes

from looplab.errors import EXIT_MACHINE, LabError
from looplab.lab.commands import setup as preparing
from looplab.lab.commands.setup import ensure_compose
from looplab.lab.docker import compose_plugin, engine_service
from looplab.lab.docker.base_image import trim
from looplab.lab.docker.compose_plugin import apt_candidate, install_from_container
from looplab.lab.docker.engine import Engine
from looplab.lab.docker.engine_service import ensure_engine, start_daemon
from looplab.lab.machine import apt
from looplab.lab.machine.apt import is_debian_like

GOOD = Engine(server_version="20.10", cgroup_version=2, compose=(2, 26, 1))
SILENT = Engine(trouble="no answer", detail="Cannot connect to the Docker daemon")
ABSENT = Engine(trouble="no client", detail="docker: not found")
NO_COMPOSE = Engine(server_version="20.10", cgroup_version=2)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> fakes.Programs:
    programs = fakes.Programs(tmp_path / "bin")
    monkeypatch.setenv("PATH", str(programs.folder))
    return programs


def host(monkeypatch: pytest.MonkeyPatch, *, root: bool, debian: bool = True, daemon: bool = True) -> list[str]:
    """A host of that kind; returns the list that what was done is written to."""
    done: list[str] = []
    monkeypatch.setattr(engine_service, "is_root", lambda: root)
    monkeypatch.setattr(engine_service, "is_debian_like", lambda: debian)
    monkeypatch.setattr(engine_service, "_daemon_program", lambda: "dockerd" if daemon else None)
    monkeypatch.setattr(engine_service, "install_packages", lambda what, packages, **_: done.extend(packages))
    monkeypatch.setattr(engine_service, "_start_engine", lambda root: done.append("started"))
    return done


def engines(*states: Engine) -> object:
    answers = list(states)
    return lambda: answers.pop(0) if len(answers) > 1 else answers[0]


def test_an_engine_that_serves_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = host(monkeypatch, root=False)
    assert ensure_engine(tmp_path, engines(GOOD)) is GOOD  # type: ignore[arg-type]
    assert done == []


def test_root_on_debian_gets_one_installed_and_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = host(monkeypatch, root=True, daemon=False)
    assert ensure_engine(tmp_path, engines(ABSENT, SILENT, GOOD)) is GOOD  # type: ignore[arg-type]
    assert done[0] == "docker.io"
    assert done[-1] == "started"


def test_a_client_without_a_daemon_gets_the_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = host(monkeypatch, root=True, daemon=False)
    ensure_engine(tmp_path, engines(SILENT, SILENT, GOOD))  # type: ignore[arg-type]
    assert "docker.io" in done


def test_a_daemon_that_sleeps_is_only_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = host(monkeypatch, root=True)
    ensure_engine(tmp_path, engines(SILENT, GOOD))  # type: ignore[arg-type]
    assert done == ["started"]


@pytest.mark.parametrize(
    ("engine", "root", "debian", "remedy"),
    [
        (ABSENT, False, True, "sudo ./lab setup"),
        (ABSENT, True, False, "Docker Engine"),
        (SILENT, False, True, "systemctl start docker"),
        (Engine(trouble="no rights"), False, True, "usermod"),
        (Engine(trouble="no answer", endpoint="tcp://192.0.2.1:2375"), True, True, "DOCKER_HOST"),
    ],
)
def test_where_the_lab_may_not_it_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: Engine, root: bool, debian: bool, remedy: str
) -> None:
    done = host(monkeypatch, root=root, debian=debian)
    with pytest.raises(LabError) as caught:
        ensure_engine(tmp_path, engines(engine))  # type: ignore[arg-type]
    assert caught.value.exit_code == EXIT_MACHINE
    assert remedy in caught.value.remedy
    assert done == []


def test_a_daemon_is_in_a_session_of_its_own_and_writes_its_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    code = "import os; print(os.getsid(0) == os.getpid(), flush=True)"
    assert start_daemon([sys.executable, "-c", code], log).wait(timeout=20) == 0
    assert log.read_text() == "True\n"


def test_a_daemon_that_ends_at_once_shows_its_last_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_service, "find_engine", lambda timeout_s: SILENT)
    log = tmp_path / "log"
    daemon = start_daemon(
        ["/bin/sh", "-c", "echo failed to start daemon: no space left; echo '(exit status 4)'; exit 1"], log
    )
    with pytest.raises(LabError) as caught:
        engine_service._wait_for_engine(daemon, log)
    assert "no space left" in caught.value.message
    assert str(log) in caught.value.remedy


POLICY = "{package}:\n  Installed: (none)\n  Candidate: {candidate}\n"


def policies(programs: fakes.Programs, candidates: dict[str, str]) -> None:
    answers = {
        f"'policy {package}'": (POLICY.format(package=package, candidate=candidate), "", 0)
        for package, candidate in candidates.items()
    }
    programs.add("apt-cache", {**answers, "policy*": ("", "", 0)})


@pytest.mark.parametrize(
    ("candidates", "package"),
    [
        ({"docker-compose": "1.29.2-3"}, None),  # Debian 12
        ({"docker-compose": "2.26.1-4"}, "docker-compose"),  # Debian 13
        ({"docker-compose-v2": "2.24.6+ds1-0ubuntu2", "docker-compose": "1.29.2-6"}, "docker-compose-v2"),
        ({"docker-compose-plugin": "5:2.29.7-1", "docker-compose": "1.29.2-3"}, "docker-compose-plugin"),
        ({"docker-compose-v2": "2.20.2+ds1-0ubuntu1"}, None),
        ({"docker-compose": "(none)"}, None),
        ({}, None),
    ],
)
def test_which_package_brings_a_compose_new_enough(
    programs: fakes.Programs, candidates: dict[str, str], package: str | None
) -> None:
    policies(programs, candidates)
    assert apt_candidate() == package


PLUGIN = "#!/bin/sh\necho {version}\n"


def engine_with_plugin(programs: fakes.Programs, version: str) -> None:
    """`docker cp` really puts a file there, which answers as the plugin would."""
    programs.add("docker", {"'run '*": ("", "", 0), "'rm '*": ("", "", 0)})
    script = (programs.folder / "docker").read_text()
    copy = f'cp) for last; do :; done; printf \'%s\\n\' "#!/bin/sh" "echo {version}" > "$last"; exit 0 ;;'
    (programs.folder / "docker").write_text(script.replace('case "$*" in', f'case "$1" in {copy} esac\ncase "$*" in'))


def test_compose_comes_out_of_a_container(programs: fakes.Programs, tmp_path: Path) -> None:
    engine_with_plugin(programs, "2.26.1-4")
    target = install_from_container(tmp_path / "plugins")
    assert target == tmp_path / "plugins" / "docker-compose"
    assert subprocess.run([target], capture_output=True, text=True, check=True).stdout == "2.26.1-4\n"
    assert [entry.name for entry in target.parent.iterdir()] == ["docker-compose"]
    assert programs.calls("docker")[-1].startswith("rm --force looplab-compose-")


def test_an_old_compose_is_not_kept(programs: fakes.Programs, tmp_path: Path) -> None:
    engine_with_plugin(programs, "2.20.0")
    with pytest.raises(LabError, match="does not serve"):
        install_from_container(tmp_path / "plugins")
    assert not (tmp_path / "plugins").exists()


def test_a_download_that_fails_leaves_no_container(programs: fakes.Programs, tmp_path: Path) -> None:
    programs.add("docker", {"'run '*": ("", "E: Temporary failure resolving\n", 100), "'rm '*": ("", "", 0)})
    with pytest.raises(LabError) as caught:
        install_from_container(tmp_path / "plugins")
    assert "Temporary failure resolving" in caught.value.message
    assert caught.value.exit_code == EXIT_MACHINE
    assert programs.calls("docker")[-1].startswith("rm --force")


def test_a_plugin_for_one_user_where_that_user_is_not_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    assert compose_plugin.plugin_directory() == tmp_path / "cli-plugins"


def test_compose_is_got_only_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(preparing, "apt_candidate", lambda: None)
    monkeypatch.setattr(preparing, "install_from_container", lambda directory: done.append("container"))
    monkeypatch.setattr(preparing, "find_engine", lambda: GOOD)
    assert ensure_compose(GOOD, lambda: done.append("base")) is GOOD
    assert done == []
    assert ensure_compose(NO_COMPOSE, lambda: done.append("base")) is GOOD
    assert done == ["base", "container"]


def test_a_compose_that_stays_hidden_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    old = Engine(server_version="20.10", compose=(2, 6, 0))
    monkeypatch.setattr(preparing, "apt_candidate", lambda: None)
    monkeypatch.setattr(preparing, "install_from_container", lambda directory: None)
    monkeypatch.setattr(preparing, "find_engine", lambda: old)
    with pytest.raises(LabError) as caught:
        ensure_compose(old, lambda: None)
    assert "older plugin (2.6.0) hides" in caught.value.remedy


@pytest.mark.parametrize(
    ("release", "like"),
    [
        ({"ID": "debian"}, True),
        ({"ID": "raspbian", "ID_LIKE": "debian"}, True),
        ({"ID": "linuxmint", "ID_LIKE": "ubuntu debian"}, True),
        ({"ID": "fedora"}, False),
    ],
)
def test_hosts_like_debian(programs: fakes.Programs, release: dict[str, str], like: bool) -> None:
    programs.add("apt-get", {})
    assert is_debian_like(release) is like


def test_apts_reason_is_passed_on(programs: fakes.Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apt, "is_root", lambda: True)
    monkeypatch.setattr(apt, "is_debian_like", lambda: True)
    refusal = "Reading package lists...\nE: Unable to locate package docker.io\n"
    programs.add("apt-get", {"*update": ("", "", 0), "*install*": ("", refusal, 100)})
    with pytest.raises(LabError, match=r"Unable to locate package docker\.io"):
        apt.install_packages("the Docker engine", ["docker.io"])


def test_a_package_only_some_releases_have(programs: fakes.Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apt, "is_root", lambda: True)
    monkeypatch.setattr(apt, "is_debian_like", lambda: True)
    programs.add("apt-get", {"*": ("", "", 0)})
    policies(programs, {"docker-cli": "26.1.5", "docker-other": "(none)"})
    apt.install_packages("x", ["docker.io"], if_known=["docker-cli", "docker-other", "docker-unheard-of"])
    assert programs.calls("apt-get")[-1].endswith("install docker.io docker-cli")


def test_the_base_keeps_licences_and_starts_no_services(tmp_path: Path) -> None:
    for name in ("usr/share/doc/bash/copyright", "usr/share/doc/bash/README", "usr/share/man/man1/bash.1"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    for name in ("etc/dpkg/dpkg.cfg.d", "etc/apt/apt.conf.d", "usr/sbin", "var/cache/apt/archives"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "var/cache/apt/archives/a.deb").write_text("x")
    trim(tmp_path)
    assert (tmp_path / "usr/share/doc/bash/copyright").exists()
    assert not (tmp_path / "usr/share/doc/bash/README").exists()
    assert not (tmp_path / "usr/share/man/man1").exists()
    assert not (tmp_path / "var/cache/apt/archives/a.deb").exists()
    assert subprocess.run([tmp_path / "usr/sbin/policy-rc.d"], check=False).returncode == 101
