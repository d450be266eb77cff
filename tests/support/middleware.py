"""The middleware's parts on the engine: how a test kills one of their programs."""

import contextlib
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from looplab.experiments.middleware import EXPERIMENT
from support.e2e_lab import Lab

# Runs in a node's container: its agent knows the process.
SCRIPT = """
import json, os, time, urllib.request
headers = {{"Content-Type": "application/json", "Authorization": "Bearer " + open("/run/looplab/nodes").read().strip()}}
ask = urllib.request.Request("http://127.0.0.1:9200/facts", b'{{}}', headers)
end, pid, newest = time.monotonic() + 60, -1, 0
# A restart gives it another number.
while pid != newest or not pid:
    assert time.monotonic() < end
    pid = newest
    time.sleep({wait_s} if pid else 0.1)
    found = json.load(urllib.request.urlopen(ask))["services"]
    newest = found[{program!r}]["pid"] if {after!r} in found else 0
{act}
"""
# The kernel ends the program first, once the node's memory is gone.
EXHAUST = """
with open("/proc/%d/oom_score_adj" % pid, "w") as file:
    file.write("1000")
held = []
while os.path.exists("/proc/%d/exe" % pid) and len(held) < {megabytes}:
    held.append(os.urandom(1 << 20))
"""


# Runs in a data service's container, which sees the other parts' processes; the first one is the service.
SIGNAL = "import os, time; from looplab.system.processes import named; time.sleep({}); os.kill(named({!r})[0], {})"


def kill_service(
    lab: Lab, service: str, program: str, *, after: str = "", number: int = signal.SIGKILL, wait_s: float = 3
) -> None:
    """Send a signal to a program of a node, `wait_s` after its program `after` has started, or to a data service."""
    script = SCRIPT.format(program=program, after=after or program, wait_s=wait_s, act=f"os.kill(pid, {int(number)})")
    limit_s = 30.0
    if "-node-" not in service:
        limit_s = wait_s + 2
        [comm] = next(role.comms for role in EXPERIMENT.roles if role.name == program)
        script = SIGNAL.format(wait_s, comm, int(number))
    command = ["docker", "exec", lab.container(service), "python3", "-c", script]
    # Where the container ends with its program, Docker 20.10 sometimes never hears of the end of this command.
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(command, check=True, timeout=limit_s)


def exhaust_memory(lab: Lab, service: str, program: str, megabytes: int) -> None:
    """Take memory in a part's container until the kernel ends a program, 3 s after it has started."""
    act = EXHAUST.format(megabytes=megabytes)
    script = SCRIPT.format(program=program, after=program, wait_s=3, act=act)
    # The kernel may end this program as well; the run names the one that matters.
    subprocess.run(["docker", "exec", lab.container(service), "python3", "-c", script], check=False)


def check_accounts(counted: dict[str, Any]) -> None:
    """Every request has one fate, every acknowledged message was looked for in the database that can be read."""
    assert counted["requests"] == counted["succeeded"] + counted["failed"] + counted["unfinished"]
    if counted["posted"] is not None:
        assert counted["posted"] == counted["stored"] + counted["lost"] + counted["duplicates"] == counted["succeeded"]


def open_to_users(lab: Lab) -> None:
    """Let an ordinary user, whom bare metal needs, into pytest's folders, which are root's alone."""
    for folder in lab.root.parents:
        if folder.is_relative_to(Path(tempfile.gettempdir()) / "pytest-of-root"):
            folder.chmod(0o711)


def bare_metal() -> list[str]:
    """Return the processes of bare metal on this host."""
    found = subprocess.run(["pgrep", "-f", r"\.cache/magistrala/"], capture_output=True, text=True, check=False)
    return found.stdout.split()
