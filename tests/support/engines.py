"""Hosts on this machine: Docker engines with a network, mounts and a host name of their own, on one switch.

What they cannot stand for: other kernels, processors and clocks, a slow or lossy network.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from contextlib import AbstractContextManager
from pathlib import Path

from support.waiting import until
from support.wire import Lan, call

ENGINE_LIMIT_S = 90.0
GROUPS = Path("/sys/fs/cgroup")
UNSHARE = ("unshare", "--mount", "--uts", "--propagation", "private")
# A name server that does not answer costs 10 s a task: Swarm asks for every image before it takes its own.
START = 'hostname {name} && mount --bind /dev/null /etc/resolv.conf && exec dockerd "$@"'


class Engine:
    """The engine of a host of `lan`, with its data and its socket in `folder`, which must have a short path."""

    def __init__(self, lan: Lan, name: str, folder: Path) -> None:
        self.lan, self.name, self.address, self._folder = lan, name, lan.addresses[name], folder
        self.endpoint = f"unix://{folder}/docker.sock"
        self._space = lan.namespace(name)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "DOCKER_HOST": self.endpoint}

    def __enter__(self) -> Engine:
        self._folder.mkdir(parents=True)
        cpuset = GROUPS / "cpuset" / self._space
        if cpuset.parent.exists():
            # A processor of its own, as far as its parts stay in its group: hosts do not share stress.
            cpuset.mkdir(exist_ok=True)
            (cpuset / "cpuset.mems").write_text("0")
            (cpuset / "cpuset.cpus").write_text(str([*self.lan.addresses].index(self.name) % (os.cpu_count() or 1)))
        options = {"data-root": "data", "exec-root": "exec", "pidfile": "docker.pid"}
        words = [f"--{option}={self._folder / path}" for option, path in options.items()]
        words += [f"--host={self.endpoint}", f"--cgroup-parent=/{self._space}"]
        # Not `ip netns exec`: that hides the control groups.
        inside = ["nsenter", f"--net=/run/netns/{self._space}", *UNSHARE]
        command = [*inside, "sh", "-c", START.format(name=self.name), "sh", *words]
        with (self._folder / "dockerd.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        until(self._answers, f"the engine of {self.name}", ENGINE_LIMIT_S)
        return self

    def docker(self, *words: str, timeout_s: float = 120.0) -> str:
        return call("docker", *words, timeout_s=timeout_s, env=self.environment)

    def confine(self, cores: float) -> None:
        """Give all that its parts use together so many processors, whichever these are."""
        cpu = GROUPS / "cpu" / self._space
        cpu.mkdir(exist_ok=True)
        (cpu / "cpu.cfs_quota_us").write_text(str(round(cores * 100_000)))
        (GROUPS / "cpuset" / self._space / "cpuset.cpus").write_text(f"0-{(os.cpu_count() or 1) - 1}")

    def cut(self) -> AbstractContextManager[None]:
        """Its cable is out of the switch."""
        return self.lan.unplugged(self.name)

    def kill(self) -> None:
        """Pull the plug: the engine and everything it runs end at once, and nobody is told."""
        assert self._process is not None
        self.lan.unplug(self.name)
        self._process.kill()
        self._process.wait(60)
        self._process = None
        self._kill_rest()

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)

    def __exit__(self, *_error: object) -> None:
        """End the engine and all below it; nothing of it stays."""
        self.stop()
        self._kill_rest()
        for group in (*GROUPS.glob(self._space), *GROUPS.glob(f"*/{self._space}")):
            for folder in (*sorted((path for path in group.rglob("*") if path.is_dir()), reverse=True), group):
                folder.rmdir()
        shutil.rmtree(self._folder, ignore_errors=True)

    def left(self) -> list[str]:
        """Return all containers, volumes, and networks beside the engine's own three."""
        networks = self.docker("network", "ls", "--quiet", "--filter", "type=custom").split()
        return [
            *self.docker("ps", "--all", "--quiet").split(),
            *self.docker("volume", "ls", "--quiet").split(),
            *networks,
        ]

    def _answers(self) -> bool:
        done = subprocess.run(["docker", "version"], env=self.environment, capture_output=True, timeout=30, check=False)
        return done.returncode == 0

    def _kill_rest(self) -> None:
        for pid in self._processes():
            os.kill(pid, signal.SIGKILL)
        until(lambda: not self._processes(), f"the end of the processes of {self.name}", 30)

    def _processes(self) -> list[int]:
        """Return the processes below its engine, by their control group or its folder."""
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                mine = f":/{self._space}/" in (entry / "cgroup").read_text()
                mine = mine or f"{self._folder}/".encode() in (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if mine:
                found.append(int(entry.name))
        return found
