"""Hosts on this machine: Docker engines with a network namespace each, on one switch.

What they cannot stand for: other kernels, processors and clocks.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.waiting import until
from support.wire import call

ENGINE_LIMIT_S = 60.0


class Lan:
    """A switch in a namespace of its own; this machine has the address 1, each host of `names` the next one."""

    def __init__(self, number: int, names: tuple[str, ...]) -> None:
        self.here = f"10.78.{number}.1"
        self.addresses = {name: f"10.78.{number}.{index}" for index, name in enumerate(names, 2)}
        self._number, self._switch, self._lan = number, f"labsx{number}", f"labhx{number}"

    def namespace(self, name: str) -> str:
        return f"labn{self._number}{name}"

    def __enter__(self) -> Lan:
        try:
            self._lay()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _lay(self) -> None:
        call("ip", "netns", "add", self._switch)
        call("ip", "-n", self._switch, "link", "add", "switch", "type", "bridge")
        call("ip", "-n", self._switch, "link", "set", "switch", "up")
        call("ip", "link", "add", self._lan, "type", "veth", "peer", "name", "here", "netns", self._switch)
        call("ip", "addr", "add", f"{self.here}/24", "dev", self._lan)
        call("ip", "link", "set", self._lan, "up")
        for name, address in self.addresses.items():
            there = self.namespace(name)
            call("ip", "netns", "add", there)
            in_switch = ("peer", "name", name, "netns", self._switch)
            call("ip", "-n", there, "link", "add", "eth0", "type", "veth", *in_switch)
            call("ip", "-n", there, "addr", "add", f"{address}/24", "dev", "eth0")
            for link in ("eth0", "lo"):
                call("ip", "-n", there, "link", "set", link, "up")
            call("ip", "-n", there, "route", "add", "default", "via", self.here)
        for port in ("here", *self.addresses):
            call("ip", "-n", self._switch, "link", "set", port, "master", "switch", "up")

    @contextmanager
    def cut(self, name: str) -> Iterator[None]:
        """The cable of a host is out of the switch."""
        call("ip", "-n", self._switch, "link", "set", name, "down")
        try:
            yield
        finally:
            call("ip", "-n", self._switch, "link", "set", name, "up")

    def __exit__(self, *_error: object) -> None:
        subprocess.run(["ip", "link", "delete", self._lan], capture_output=True, timeout=30, check=False)
        for name in (*map(self.namespace, self.addresses), self._switch):
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, timeout=30, check=False)


class Engine:
    """The engine of a host of `lan`, in `folder`."""

    def __init__(self, lan: Lan, name: str, folder: Path) -> None:
        self.lan, self.name, self._folder = lan, name, folder
        self.endpoint = f"unix://{folder}/docker.sock"
        self._process: subprocess.Popen[bytes] | None = None
        self._cpuset = Path("/sys/fs/cgroup/cpuset") / lan.namespace(name)

    def __enter__(self) -> Engine:
        self._folder.mkdir(parents=True)
        if self._cpuset.parent.exists():
            # A processor of its own, as far as its parts stay in its group: hosts do not share stress.
            self._cpuset.mkdir(exist_ok=True)
            (self._cpuset / "cpuset.mems").write_text("0")
            (self._cpuset / "cpuset.cpus").write_text(
                str([*self.lan.addresses].index(self.name) % (os.cpu_count() or 1))
            )
        words = [
            *("nsenter", f"--net=/run/netns/{self.lan.namespace(self.name)}"),
            *("unshare", "--mount", "--propagation", "private", "dockerd"),
            *("--data-root", str(self._folder / "data"), "--exec-root", str(self._folder / "exec")),
            *("--pidfile", str(self._folder / "docker.pid"), "--host", self.endpoint),
            *("--cgroup-parent", f"/{self.lan.namespace(self.name)}"),
        ]
        with (self._folder / "dockerd.log").open("ab") as log:
            self._process = subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)
        until(self._answers, f"the engine of {self.name}", ENGINE_LIMIT_S)
        return self

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(60)

    def __exit__(self, *_error: object) -> None:
        self.stop()
        shutil.rmtree(self._folder / "data", ignore_errors=True)

    def docker(self, *words: str, timeout_s: float = 60.0) -> str:
        return call("docker", *words, timeout_s=timeout_s, env={**os.environ, "DOCKER_HOST": self.endpoint})

    def left(self) -> list[str]:
        """Return all containers, volumes, and networks beside the engine's own three."""
        networks = self.docker("network", "ls", "--quiet", "--filter", "type=custom").split()
        return [
            *self.docker("ps", "--all", "--quiet").split(),
            *self.docker("volume", "ls", "--quiet").split(),
            *networks,
        ]

    def _answers(self) -> bool:
        words = ["docker", "--host", self.endpoint, "version"]
        return subprocess.run(words, capture_output=True, timeout=30, check=False).returncode == 0
