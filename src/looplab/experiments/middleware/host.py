"""Bare metal: an agent outside any container, with the same programs, taken out of the image; it ends with the run.

The http adapter always listens on every interface. The agent therefore joins the network namespace of the
idle node: no port opens on the host, and requests take the container's way.
"""

import contextlib
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from looplab.experiments.middleware.agent import HOST_PORT, HOST_TOKEN
from looplab.experiments.middleware.systems import folder_of
from looplab.system import own_process

CACHE = Path(".cache")
NAMESPACES = Path("/proc/self/ns/net")
LOOK_S = 0.3
NOBODY = (65534, 65534)
AGENT = "looplab.experiments.middleware.agent"
STOP_TIMEOUT_S = 20.0


@contextlib.contextmanager
def host_programs(
    root: Path, settings: Mapping[str, str], image: Callable[[str], str], say: Callable[[str], None]
) -> Iterator[dict[str, str]]:
    """Run the agent as long as the context lasts; yield the variables by which the controller finds it.

    Yield none, and say why, where bare metal is not wanted or this machine does not allow it.
    """
    if "bare" not in (settings.get("WHERE") or "container,bare") or settings.get("SCENARIO") == "middleware-nodes":
        yield {}
        return
    system = settings.get("MIDDLEWARE") or "magistrala"
    if why := _obstacle(root, system):
        say(f"Bare metal is left out: {why}")
        yield {}
        return
    project = settings["COMPOSE_PROJECT_NAME"]
    folder = programs(root, settings.get("MIDDLEWARE_IMAGE") or image("magistrala"), system)
    token = secrets.token_hex(16)
    over = threading.Event()
    follower = threading.Thread(target=_follow, args=(root, folder, project, token, over), daemon=True)
    follower.start()
    try:
        yield {HOST_TOKEN: token}
    finally:
        over.set()
        follower.join(STOP_TIMEOUT_S)


def programs(root: Path, image: str, system: str = "magistrala") -> Path:
    """Return the folder with the image's programs of a system, taken out of it once."""
    number = _call("docker", "image", "inspect", "-f", "{{.Id}}", image).partition(":")[2][:16]
    folder = root / CACHE / system / number
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        container = _call("docker", "create", image)
        try:
            # An interrupted copy must not count as the programs.
            with tempfile.TemporaryDirectory(dir=folder.parent) as half:
                _call("docker", "cp", f"{container}:{folder_of(system)}", f"{half}/programs")
                Path(half, "programs").rename(folder)
        finally:
            _call("docker", "rm", container)
    return folder


def _follow(root: Path, folder: Path, project: str, token: str, over: threading.Event) -> None:
    """Keep an agent in the network of the node's container until `over`; each run of a study has another container."""
    node = [f"--filter=label=com.docker.compose.{name}" for name in (f"project={project}", "service=middleware-node-1")]
    with contextlib.ExitStack() as agent:
        followed = ""
        while not over.wait(LOOK_S):
            with contextlib.suppress(subprocess.CalledProcessError):
                if (container := _call("docker", "ps", "--quiet", *node)) != followed:
                    agent.close()
                    followed = ""
                    if container:
                        agent.callback(own_process.end_child, _agent(root, folder, token, container), STOP_TIMEOUT_S)
                    followed = container


def _agent(root: Path, folder: Path, token: str, container: str) -> subprocess.Popen[bytes]:
    """Start an agent in the network namespace of `container`."""
    pid = _call("docker", "inspect", "-f", "{{.State.Pid}}", container)
    # Only root can join a network. The programs then run as an ordinary user.
    command = ("nsenter", f"--net=/proc/{pid}/ns/net", *as_user(root), str(_python(root)), "-m", AGENT)
    return subprocess.Popen(
        [*command, "--port", str(HOST_PORT), "--programs", str(folder)],
        env={**_environment(root), "AGENT_TOKEN": token},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        # Ctrl-C must reach ./lab alone, which then ends the agent.
        start_new_session=True,
    )


def as_user(root: Path) -> tuple[str, ...]:
    """Return the command before another one that makes it an ordinary user's.

    That is who called sudo, else the owner of this checkout, else nobody; it has no privilege, and ends with ./lab.
    """
    facts = root.stat()
    owners = [(os.environ.get("SUDO_UID"), os.environ.get("SUDO_GID")), (facts.st_uid, facts.st_gid), NOBODY]
    uid, gid = next((int(uid), int(gid)) for uid, gid in owners if uid and gid and int(uid))
    return (
        *("setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "--no-new-privs", "--inh-caps=-all"),
        "--pdeathsig=TERM",
    )


def _python(root: Path) -> str:
    """Return a Python that this user can start and that can read the agent here, "" if there is none."""
    for python in filter(None, (sys.executable, shutil.which("python3", path="/usr/local/bin:/usr/bin"))):
        command = [*as_user(root), python, "-c", f"import {AGENT}.programs"]
        if not subprocess.run(command, env=_environment(root), capture_output=True, check=False).returncode:
            return python
    return ""


def _environment(root: Path) -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(root / "src"), "PYTHONDONTWRITEBYTECODE": "1"}


def _obstacle(root: Path, system: str) -> str:
    """Return why the programs cannot run outside a container, "" if they can."""
    if not NAMESPACES.exists():
        return "the programs are Linux's, and this host is not."
    if os.geteuid():
        return "its programs join the network of the node's container, which only root may: use sudo."
    if system == "devicehive" and not shutil.which("java"):
        return "DeviceHive needs a Java runtime (17 or 21) on this host."
    if not _python(root):
        return f"no ordinary user can read {root}, or no Python 3.11: move the lab out of root's folder."
    return ""


def _call(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
