"""Install and start the Docker engine, with a real-time budget where the kernel wants one."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from looplab.errors import EXIT_MACHINE, LabError
from looplab.lab.docker.engine import NO_ANSWER, NO_CLIENT, Engine, engine_message, engine_remedy, find_engine
from looplab.lab.machine.apt import install_packages, is_debian_like, is_root
from looplab.lab.machine.limits import CGROUP_ROOT, RT_BUDGET_US, give_rt_budget, rt_budget_us
from looplab.lab.programs import call, is_there
from looplab.system.terminal import Step, say

SYSTEMD_RUNS = Path("/run/systemd/system")
START_TIMEOUT_S = 90.0
# Only an engine that the lab started by hand leaves this behind: it says what to stop, and its log.
STARTED_FILE = Path(".cache/engine.pid")
LOG_PLACES = (Path("/var/log/looplab-dockerd.log"), Path("/tmp/looplab-dockerd.log"))


def ensure_engine(root: Path, find: Callable[[], Engine] = find_engine) -> Engine:
    """An engine that answers this user; installs and starts one where that is possible."""
    engine = find()
    if engine.trouble == NO_CLIENT or (engine.trouble == NO_ANSWER and _nothing_to_start(engine)):
        _install_engine(engine)
        engine = find()
    if engine.trouble == NO_ANSWER:
        _require_startable(engine)
        _start_engine(root)
        engine = find()
    if not engine.serves:
        raise LabError(engine_message(engine), engine_remedy(engine), EXIT_MACHINE)
    _ensure_rt_budget(engine)
    return engine


def _nothing_to_start(engine: Engine) -> bool:
    """A client without a daemon: the engine itself is missing (unless it is another machine's)."""
    return engine.usual_endpoint and platform.system() == "Linux" and not _daemon_program()


def _daemon_program() -> str | None:
    for path in ("dockerd", "/usr/sbin/dockerd", "/usr/bin/dockerd"):
        if is_there(path):
            return path
    return None


def _install_engine(engine: Engine) -> None:
    if not (is_debian_like() and is_root()):
        remedy = "Run sudo ./lab setup." if is_debian_like() else "Install Docker Engine or Docker Desktop."
        raise LabError(engine_message(engine), remedy, EXIT_MACHINE)
    # From Debian 13 on the client is a package of its own.
    install_packages("the Docker engine", engine_packages(), expected_s=45, if_known=["docker-cli"])


def engine_packages() -> list[str]:
    """What docker.io only recommends, yet cannot start without on some kernels."""
    packages = ["docker.io", "iptables"]
    if _first_character(Path("/sys/module/apparmor/parameters/enabled")) == "Y":
        packages.append("apparmor")
    if not any(CGROUP_ROOT.glob("*/cgroup.procs")) and not (CGROUP_ROOT / "cgroup.procs").exists():
        packages.append("cgroupfs-mount")
    return packages


def _first_character(path: Path) -> str:
    try:
        return path.read_text()[:1]
    except OSError:
        return ""


def _require_startable(engine: Engine) -> None:
    # An engine started here answers on the usual socket: no help to a DOCKER_HOST or context that points elsewhere.
    if not engine.usual_endpoint or platform.system() != "Linux" or not is_root():
        raise LabError(engine_message(engine), engine_remedy(engine), EXIT_MACHINE)


def _start_engine(root: Path) -> None:
    """By systemd where it runs, else by hand in the background."""
    with Step("Starting the Docker engine", expected_s=5):
        if SYSTEMD_RUNS.is_dir():
            started = call(["systemctl", "enable", "--now", "docker"], timeout_s=START_TIMEOUT_S)
            if not started.good:
                raise LabError(
                    f"systemd could not start the Docker engine: {started.said}",
                    "journalctl --unit docker --lines 30 says why.",
                    EXIT_MACHINE,
                )
            _wait_for_engine(None, Path("journalctl --unit docker"))
        else:
            log = _log_file()
            daemon = start_daemon(daemon_command(), log)
            _write_started(root, daemon.pid)
            _wait_for_engine(daemon, log)


def daemon_command() -> list[str]:
    """dockerd refuses --cpu-rt-runtime on kernels without real-time groups, so it is given only there."""
    command = [_daemon_program() or "dockerd"]
    if any(CGROUP_ROOT.glob("cpu*/cpu.rt_runtime_us")):
        command.append(f"--cpu-rt-runtime={RT_BUDGET_US}")
    return command


def start_daemon(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    """In a session of its own, so that neither Ctrl-C nor the end of the terminal stops it."""
    with log.open("ab") as sink, open(os.devnull, "rb") as nothing:
        return subprocess.Popen(command, stdin=nothing, stdout=sink, stderr=sink, start_new_session=True, cwd="/")


def _log_file() -> Path:
    for log in LOG_PLACES:
        if os.access(log if log.exists() else log.parent, os.W_OK):
            return log
    return Path(os.devnull)


def _write_started(root: Path, pid: int) -> None:
    path = root / STARTED_FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{pid}\n")


def _wait_for_engine(daemon: subprocess.Popen[bytes] | None, log: Path) -> None:
    """Until it answers; one that ended at once shows the end of its log."""
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline_s:
        if find_engine(timeout_s=10).trouble != NO_ANSWER:
            return
        if daemon is not None and daemon.poll() is not None:
            break
        time.sleep(0.3)
    raise LabError(
        f"The Docker engine was started but does not answer. {_last_complaint(log)}",
        f"Read {log}, mend what it says, run ./lab setup again.",
        EXIT_MACHINE,
    )


def _last_complaint(log: Path) -> str:
    try:
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    except OSError:
        return ""
    telling = [line for line in lines if "failed to start daemon" in line or "level=fatal" in line] or lines
    return f"It said: {telling[-1]}" if telling else ""


def _ensure_rt_budget(engine: Engine) -> None:
    """A budget of 0 leaves every container without real-time priority, whatever it is permitted."""
    if rt_budget_us(engine) == 0 and not give_rt_budget(engine):
        say(
            "The engine's control group has no real-time budget, so real-time priority cannot work. "
            f"As root: dockerd --cpu-rt-runtime={RT_BUDGET_US}, or run sudo ./lab setup."
        )
