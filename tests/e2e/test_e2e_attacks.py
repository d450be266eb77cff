"""What an attacker may try on a machine that runs the lab, each from where that attacker would be.

A container on the lab's network, another user of the machine, a neighbour's network namespace: all are made here.
"""

import json
import subprocess

from support.containers import docker, own_image
from support.e2e_lab import PROJECT, Lab

NOBODY = 65534
STRESS_99 = json.dumps({"roles": {"stress": {"comm": ["stress"], "fifo": 99}}})
# Prints the status of the answer, or why there is none.
POST = """
import sys, urllib.error, urllib.request
url, body, token, kind = sys.argv[1:]
request = urllib.request.Request(url, body.encode(), {"Content-Type": kind, "Authorization": "Bearer " + token})
try:
    print(urllib.request.urlopen(request, timeout=3).status)
except urllib.error.HTTPError as error:
    print(error.code)
except OSError as error:
    print(error)
"""


def as_nobody(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a command as another user of this machine."""
    return subprocess.run(words, user=NOBODY, group=NOBODY, capture_output=True, text=True, timeout=60, check=False)


def on_network(network: str, *words: str) -> str:
    """Run Python in a stranger's container on one of the lab's networks."""
    image = ["--user", f"{NOBODY}", "--entrypoint", "python3", own_image("controller")]
    return docker("run", "--rm", "--network", f"{PROJECT}_{network}", *image, "-c", *words)


def test_nobody_schedules_the_parts_of_a_run(lab: Lab) -> None:
    lab.compose("--profile", "scenario2", "up", "--detach", "stress", code=0)
    treatments = lab.container("treatments")
    networks = json.loads(docker("inspect", "--format", "{{json .NetworkSettings.Networks}}", treatments))
    addresses = {name.rpartition("_")[2]: network["IPAddress"] for name, network in networks.items()}
    # On the network of broker and bridge nothing listens.
    url = f"http://{addresses['default']}:9100/facts"
    assert "refused" in on_network("default", POST, url, STRESS_99, "", "application/json")
    # The machine's users reach every container; they have no token.
    url = f"http://{addresses['control']}:9100/facts"
    for token in ("", "guess"):
        assert as_nobody("/usr/bin/python3", "-c", POST, url, STRESS_99, token, "application/json").stdout == "401\n"
    file = docker("volume", "inspect", "--format", "{{.Mountpoint}}", f"{PROJECT}_identities") + "/treatments"
    assert "denied" in as_nobody("cat", file).stderr
    # A controller has it: it sends JSON alone, and asks for no priority of a load.
    token = docker("run", "--rm", "--user", "0", "--volume", f"{PROJECT}_identities:/run/looplab:ro",
                   "--entrypoint", "cat", own_image("controller"), "/run/looplab/treatments")  # fmt: skip
    question = json.dumps({"roles": {"stress": {"comm": ["stress"], "fifo": 0}}})
    assert on_network("control", POST, url, question, token, "application/json") == "200"
    assert on_network("control", POST, url, question, token, "text/plain") == "400"
    assert on_network("control", POST, url, STRESS_99, token, "application/json") == "400"
    policies = docker("top", lab.container("stress"), "-eo", "pid,policy").split()[3::2]
    assert set(policies) == {"TS"}
