"""Bare metal: an agent on the host, with the same programs, taken out of the image; it ends with the run."""

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from looplab.experiments.middleware.parts import HOST_AGENT, HOST_TOKEN
from looplab.experiments.middleware.systems.magistrala.programs import HTTP_INNER

CACHE = Path(".cache/magistrala")
PROGRAMS = "/opt/magistrala"
# The containers' name for the host (extra_hosts in the Compose files).
NAME = "host.docker.internal"
UNPRIVILEGED = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")
STOP_TIMEOUT_S = 20.0
PR_SET_PDEATHSIG = 1


@contextlib.contextmanager
def beside(
    root: Path, settings: Mapping[str, str], image: Callable[[str], str], say: Callable[[str], None]
) -> Iterator[dict[str, str]]:
    """Run the agent as long as the context lasts; yield the variables by which the controller finds it.

    Yield none, and say why, where bare metal is not wanted or this machine does not allow it.
    """
    if "bare" not in (settings.get("WHERE") or "container,bare") or settings.get("SCENARIO") == "middleware-nodes":
        yield {}
        return
    if why := _obstacle():
        say(f"Bare metal is left out: {why}")
        yield {}
        return
    address = _call("docker", "network", "inspect", "bridge", "-f", "{{(index .IPAM.Config 0).Gateway}}")
    folder = programs(root, image("magistrala"))
    port, token = _free_port(address), secrets.token_hex(16)
    command = [sys.executable, "-m", "looplab.experiments.middleware.agent", "node"]
    agent = subprocess.Popen(
        [*command, "--bind", address, "--port", str(port), "--programs", str(folder)],
        env={**os.environ, "AGENT_TOKEN": token, "PYTHONPATH": str(root / "src")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        # A Ctrl-C is for ./lab, which then ends this.
        start_new_session=True,
        preexec_fn=_end_with_parent,
    )
    try:
        yield {HOST_AGENT: f"{NAME}:{port}", HOST_TOKEN: token}
    finally:
        agent.terminate()
        try:
            agent.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            agent.kill()


def programs(root: Path, image: str) -> Path:
    """Return the folder with the image's programs, taken out of it once."""
    number = _call("docker", "image", "inspect", "-f", "{{.Id}}", image).partition(":")[2][:16]
    folder = root / CACHE / number
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        container = _call("docker", "create", image)
        try:
            half = folder.with_suffix(".half")
            _call("docker", "cp", f"{container}:{PROGRAMS}", str(half))
            half.rename(folder)
        finally:
            _call("docker", "rm", container)
    return folder


def _obstacle() -> str:
    """Return why the programs cannot run on this host, "" if they can."""
    if not UNPRIVILEGED.exists():
        return "the programs are Linux's, and this host is not."
    if os.geteuid() and int(UNPRIVILEGED.read_text()) > HTTP_INNER:
        return (
            f"the http adapter needs port {HTTP_INNER}, which only root may open: run as root, or "
            f"`sysctl net.ipv4.ip_unprivileged_port_start={HTTP_INNER}`."
        )
    return ""


def _call(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _free_port(address: str) -> int:
    with socket.create_server((address, 0)) as one:
        return int(one.getsockname()[1])


def _end_with_parent() -> None:
    import ctypes

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
