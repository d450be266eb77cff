"""Several machines of a Swarm on this one: engines with a network, mounts and a host name of their own, at a switch.

What this cannot stand for: another processor, another clock, another kernel, a slow or lossy network.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from support.waiting import until
from support.wire import call

SWITCH, NETWORK = "labswarm", "10.79.0"
ENGINE_LIMIT_S = 90.0
GROUPS = Path("/sys/fs/cgroup")


class Node:
    """One machine: an engine with its own data and socket below `folder`, which must have a short path."""

    def __init__(self, name: str, number: int, folder: Path) -> None:
        self.name, self.address = name, f"{NETWORK}.{number}"
        self.space, self._port = f"labnode{number}", f"labport{number}"
        self._folder = folder / name
        self.host = f"unix://{self._folder}/docker.sock"
        self._engine: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "DOCKER_HOST": self.host}

    def docker(self, *words: str, timeout_s: float = 120.0) -> str:
        return call("docker", *words, timeout_s=timeout_s, env=self.environment)

    def start(self) -> None:
        """Lay the cable and start the engine."""
        self._folder.mkdir()
        call("ip", "netns", "add", self.space)
        peer = ("peer", "name", "eth0", "netns", self.space)
        call("ip", "link", "add", self._port, "type", "veth", *peer)
        call("ip", "link", "set", self._port, "master", SWITCH, "up")
        call("ip", "-n", self.space, "addr", "add", f"{self.address}/24", "dev", "eth0")
        for link in ("eth0", "lo"):
            call("ip", "-n", self.space, "link", "set", link, "up")
        call("ip", "-n", self.space, "route", "add", "default", "via", f"{NETWORK}.254")
        options = {"data-root": "data", "exec-root": "exec", "pidfile": "docker.pid"}
        words = [f"--{option}={self._folder / path}" for option, path in options.items()]
        words += [f"--host={self.host}", f"--cgroup-parent=/{self.space}"]
        # Not `ip netns exec`: that hides the control groups.
        inside = [
            "nsenter",
            f"--net=/run/netns/{self.space}",
            "unshare",
            "--mount",
            "--uts",
            "--propagation",
            "private",
        ]
        # A name server that does not answer costs 10 s a task: Swarm asks for every image before it takes its own.
        script = f'hostname {self.name} && mount --bind /dev/null /etc/resolv.conf && exec dockerd "$@"'
        with (self._folder / "dockerd.log").open("ab") as log:
            self._engine = subprocess.Popen(
                [*inside, "sh", "-c", script, "sh", *words], stdout=log, stderr=log, start_new_session=True
            )
        until(self._answers, f"the engine of {self.name}", ENGINE_LIMIT_S)

    def load(self, archive: Path) -> None:
        self.docker("load", "--quiet", "--input", str(archive), timeout_s=600)

    def kill(self) -> None:
        """Pull the plug: the engine and everything it runs end at once, and nobody is told."""
        assert self._engine is not None
        call("ip", "link", "set", self._port, "down")
        self._engine.kill()
        self._engine.wait(60)
        self._engine = None
        for pid in self._processes():
            os.kill(pid, signal.SIGKILL)
        until(lambda: not self._processes(), f"the end of the processes of {self.name}", 30)

    @contextmanager
    def cut(self) -> Iterator[None]:
        """Its cable is out of the switch."""
        call("ip", "link", "set", self._port, "down")
        try:
            yield
        finally:
            call("ip", "link", "set", self._port, "up")

    def remove(self) -> None:
        """End the engine and all below it; nothing of it stays."""
        if self._engine is not None:
            leave = ["docker", "swarm", "leave", "--force"]
            subprocess.run(leave, env=self.environment, capture_output=True, timeout=90, check=False)
            self._engine.terminate()
            self._engine.wait(60)
        for pid in self._processes():
            os.kill(pid, signal.SIGKILL)
        until(lambda: not self._processes(), f"the end of {self.name}", 30)
        subprocess.run(["ip", "link", "delete", self._port], capture_output=True, timeout=30, check=False)
        subprocess.run(["ip", "netns", "delete", self.space], capture_output=True, timeout=30, check=False)
        for group in (*GROUPS.glob(self.space), *GROUPS.glob(f"*/{self.space}")):
            for folder in (*sorted((path for path in group.rglob("*") if path.is_dir()), reverse=True), group):
                folder.rmdir()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _answers(self) -> bool:
        done = subprocess.run(["docker", "version"], env=self.environment, capture_output=True, timeout=30, check=False)
        return done.returncode == 0

    def _processes(self) -> list[int]:
        """Return the processes below its engine, by their control group or its folder."""
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                mine = f":/{self.space}/" in (entry / "cgroup").read_text()
                mine = mine or f"{self._folder}/".encode() in (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if mine:
                found.append(int(entry.name))
        return found


@contextmanager
def nodes(names: Sequence[str], folder: Path) -> Iterator[list[Node]]:
    """Yield machines that are joined to a Swarm, which the first one manages."""
    forward = ["FORWARD", "-i", SWITCH, "-o", SWITCH, "-j", "ACCEPT"]
    made = [Node(name, number + 1, folder) for number, name in enumerate(names)]
    call("ip", "link", "add", "name", SWITCH, "type", "bridge")
    try:
        call("ip", "addr", "add", f"{NETWORK}.254/24", "dev", SWITCH)
        call("ip", "link", "set", SWITCH, "up")
        # This machine's engine lets no bridged packet pass.
        call("iptables", "-I", *forward)
        for node in made:
            node.start()
        first, *others = made
        first.docker("swarm", "init", "--advertise-addr", first.address)
        token = first.docker("swarm", "join-token", "--quiet", "worker")
        for node in others:
            node.docker("swarm", "join", "--token", token, "--advertise-addr", node.address, f"{first.address}:2377")
        yield made
    finally:
        for node in reversed(made):
            node.remove()
        subprocess.run(["iptables", "-D", *forward], capture_output=True, timeout=30, check=False)
        subprocess.run(["ip", "link", "delete", SWITCH], capture_output=True, timeout=30, check=False)


def down_for(node: Node, seconds: float) -> None:
    """Cut a node's network for so long."""
    with node.cut():
        time.sleep(seconds)
