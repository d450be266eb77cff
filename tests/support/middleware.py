"""The middleware's parts on the engine: how a test kills one of their programs."""

import signal
import subprocess

from support.e2e_lab import Lab

# Runs in the part's container: its agent knows the process.
SCRIPT = """
import json, os, time, urllib.request
ask = urllib.request.Request("http://127.0.0.1:9200/facts", b'{{"light": true}}', method="POST")
end = time.monotonic() + 60
while {after!r} not in (found := json.load(urllib.request.urlopen(ask))["services"]):
    assert time.monotonic() < end
    time.sleep(0.1)
pid = found[{program!r}]["pid"]
time.sleep({wait_s})
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


def kill_service(
    lab: Lab, service: str, program: str, *, after: str = "", number: int = signal.SIGKILL, wait_s: float = 3
) -> None:
    """Send a signal to a program of a part, `wait_s` after its program `after` has started: under load."""
    after = after if service.endswith(("node", "node-2")) and after else program
    script = SCRIPT.format(program=program, after=after, wait_s=wait_s, act=f"os.kill(pid, {int(number)})")
    subprocess.run(["docker", "exec", lab.container(service), "python3", "-c", script], check=True)


def exhaust_memory(lab: Lab, service: str, program: str, megabytes: int) -> None:
    """Take memory in a part's container, 3 s after its program has started, until the kernel ends that program."""
    script = SCRIPT.format(program=program, after=program, wait_s=3, act=EXHAUST.format(megabytes=megabytes))
    # The kernel may end this program as well; the run names the one that matters.
    subprocess.run(["docker", "exec", lab.container(service), "python3", "-c", script], check=False)
