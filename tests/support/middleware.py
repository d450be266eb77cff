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
time.sleep({wait_s})
os.kill(found[{program!r}]["pid"], {number})
"""


def kill_service(
    lab: Lab, service: str, program: str, *, after: str = "", number: int = signal.SIGKILL, wait_s: float = 3
) -> None:
    """Send a signal to a program of a part, `wait_s` after its program `after` has started: under load."""
    after = after if service.endswith(("node", "node-2")) and after else program
    script = SCRIPT.format(program=program, after=after, wait_s=wait_s, number=int(number))
    subprocess.run(["docker", "exec", lab.container(service), "python3", "-c", script], check=True)
