"""Docker engines of the tests' own, each in a network of its own, and hosts made of them on one switch.

What such hosts cannot stand for: other kernels, processors and clocks, a slow or lossy network.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Self

from support.waiting import until
from support.wire import Lan, call

ENGINE_LIMIT_S = 90.0
GROUPS = Path("/sys/fs/cgroup")
# Not `ip netns exec`: that hides the control groups, which are mounted below /sys.
UNSHARE = ("unshare", "--mount", "--uts", "--propagation", "private")
# A name server that does not answer costs 10 s a task: Swarm asks for every image before it takes its own.
START = 'hostname {name} && mount --bind /dev/null /etc/resolv.conf && exec dockerd "$@"'


class OwnEngine:
    """What `command` starts, as soon as dockerd's options follow it, with its data and its socket in `folder`.

    The folder has a short path: that of a socket has 107 bytes at most. Containers are below the control group `group`.
    """

    def __init__(self, folder: Path, command: Sequence[str], group: str = "") -> None:
        self.folder, self.endpoint = folder, f"unix://{folder}/docker.sock"
        self._command, self._group = command, group
        self._process: subprocess.Popen[bytes] | None = None
        self._network = 0

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        """End it and all below it; nothing of it stays."""
        # An engine that ends leaves containers to their shims; without any, or without an engine, the command fails.
        remove = f"docker --host {self.endpoint} rm --force --volumes $(docker --host {self.endpoint} ps --all --quiet)"
        subprocess.run(["sh", "-c", remove], capture_output=True, timeout=120, check=False)
        self.stop()
        self._kill_rest()
        mounted = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for path in reversed([path for path in mounted if path.startswith(f"{self.folder}/")]):
            call("umount", path)
        for group in (*GROUPS.glob(self._group), *GROUPS.glob(f"*/{self._group}")) if self._group else ():
            for folder in (*sorted((path for path in group.rglob("*") if path.is_dir()), reverse=True), group):
                folder.rmdir()
        for name in ("data", "exec"):
            shutil.rmtree(self.folder / name, ignore_errors=True)

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "DOCKER_HOST": self.endpoint}

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """As a boot does: containers with a restart policy come back."""
        self.folder.mkdir(parents=True, exist_ok=True)
        places = {"data-root": "data", "exec-root": "exec", "pidfile": "docker.pid"}
        options = [f"--{option}={self.folder / path}" for option, path in places.items()]
        options += [f"--cgroup-parent=/{self._group}"] if self._group else []
        words = [*self._command, *options, f"--host={self.endpoint}"]
        with (self.folder / "dockerd.log").open("ab") as log:
            self._process = subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)
        until(self._answers, f"the engine in {self.folder}", ENGINE_LIMIT_S)
        self._network = os.stat(f"/proc/{self.pid}/ns/net").st_ino
        assert self._network != os.stat("/proc/self/ns/net").st_ino, "its network would be this machine's"

    def docker(self, *words: str, timeout_s: float = 120.0) -> str:
        return call("docker", *words, timeout_s=timeout_s, env=self.environment)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)
            self._process = None

    def kill(self) -> None:
        """Pull the plug: the engine and everything it runs end at once, and nobody is told."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(60)
        self._process = None
        self._kill_rest()
        (self.folder / "docker.pid").unlink(missing_ok=True)

    def left(self) -> list[str]:
        """Return all containers, volumes, and networks beside the engine's own three."""
        listings = ("ps", "--all"), ("volume", "ls"), ("network", "ls", "--filter", "type=custom")
        return [name for listing in listings for name in self.docker(*listing, "--quiet").split()]

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "dockerd.log").read_text()
        done = subprocess.run(["docker", "version"], env=self.environment, capture_output=True, timeout=30, check=False)
        return done.returncode == 0

    def _kill_rest(self) -> None:
        for pid in self._processes():
            os.kill(pid, signal.SIGKILL)
        until(lambda: not self._processes(), f"the end of the processes of the engine in {self.folder}", 30)

    def _processes(self) -> list[int]:
        """Return the processes of its network, below its control group, or with its sockets among their words."""
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                words, group = (entry / "cmdline").read_bytes(), (entry / "cgroup").read_text()
                mine = os.stat(entry / "ns/net").st_ino == self._network or f"{self.folder}/exec/".encode() in words
            except OSError:
                continue
            # What has ended and is not yet waited for has no words.
            if words and (mine or (self._group and f":/{self._group}/" in group)):
                found.append(int(entry.name))
        return found


class Engine(OwnEngine):
    """The engine of a host of `lan`, with mounts and a host name of its own."""

    def __init__(self, lan: Lan, name: str, folder: Path) -> None:
        self.lan, self.name, self.address = lan, name, lan.addresses[name]
        self._space = lan.namespace(name)
        inside = ["nsenter", f"--net=/run/netns/{self._space}", *UNSHARE, "sh", "-c", START.format(name=name), "sh"]
        super().__init__(folder, inside, self._space)

    def start(self) -> None:
        cpuset = GROUPS / "cpuset" / self._space
        if cpuset.parent.exists():
            # A processor of its own, as far as its parts stay in its group: hosts do not share stress.
            cpuset.mkdir(exist_ok=True)
            (cpuset / "cpuset.mems").write_text("0")
            (cpuset / "cpuset.cpus").write_text(str([*self.lan.addresses].index(self.name) % (os.cpu_count() or 1)))
        super().start()

    def cut(self) -> AbstractContextManager[None]:
        """Its cable is out of the switch."""
        return self.lan.unplugged(self.name)

    def kill(self) -> None:
        self.lan.unplug(self.name)
        super().kill()
