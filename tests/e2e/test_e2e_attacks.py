"""What an attacker may try on a machine that runs the lab, each from where that attacker would be.

A container on the lab's network, another user of the machine, a neighbour's network namespace: all are made here.
"""

import contextlib
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.containers import docker, own_image
from support.e2e_lab import PROJECT, Lab
from support.waiting import until
from support.wire import call

from looplab.lab.docker.engine import find_engine, parse_version
from looplab.lab.machine.checks import LOOPBACK_RULES, LOOPBACK_SAFE

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


# A neighbour sends a packet for an address to this machine's card, and tells whether a port there takes a connection.
KNOCK = """
import random, sys
from scapy.all import IP, TCP, Ether, conf, srp1
conf.verb = 0
mac, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
# A port of its own: the answer to an earlier knock may be sent again.
own = random.randrange(20000, 60000)
frame = Ether(dst=mac) / IP(src="10.213.9.2", dst=address) / TCP(sport=own, dport=port, flags="S")
answer = srp1(frame, iface="eth0", timeout=2)
print("open" if answer is not None and TCP in answer and answer[TCP].flags == "SA" else "closed")
"""


# Prints what a broker answers to a client of MQTT: 0 in, 5 refused, or that there was no answer.
ENTER = """
import socket, sys
address, port, user, password = sys.argv[1:]
parts = [b"me", *(word.encode() for word in (user, password) if word)]
words = b"".join(len(part).to_bytes(2, "big") + part for part in parts)
packet = b"\\0\\4MQTT\\4" + bytes([0xC2 if user else 2]) + b"\\0\\x3c" + words
try:
    with socket.create_connection((address, int(port)), timeout=3) as sock:
        sock.sendall(b"\\x10" + bytes([len(packet)]) + packet)
        print(sock.recv(4)[3])
except OSError:
    print("no answer")
"""


# Prints the last line that a server sends who says something.
SAY = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=10) as sock:
    sock.settimeout(2)
    sock.sendall(sys.argv[3].encode() + b"\\r\\nPING\\r\\n")
    heard = b""
    try:
        while chunk := sock.recv(1000):
            heard += chunk
    except OSError:
        pass
    print(heard.split(b"\\r\\n")[-2].decode())
"""


# Prints whether the controller of a run takes a stranger for one of its device workers.
JOIN = """
import socket
with socket.create_connection(("controller", 9108), timeout=10) as sock:
    sock.sendall(b"guess stranger\\n")
    print("closed" if sock.recv(100) == b"" else "taken")
"""


@contextlib.contextmanager
def neighbour() -> Iterator[tuple[str, str]]:
    """Yield a network namespace that a cable joins to this machine, and the cable's name here."""
    name, cable = f"looplab-{os.getpid()}", "lab-neighbour"
    call("ip", "netns", "add", name)
    try:
        call("ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", name)
        call("ip", "address", "add", "10.213.9.1/30", "dev", cable)
        call("ip", "link", "set", cable, "up")
        call("ip", "-n", name, "address", "add", "10.213.9.2/30", "dev", "eth0")
        call("ip", "-n", name, "link", "set", "eth0", "up")
        yield name, cable
    finally:
        # The cable goes with its end inside.
        call("ip", "netns", "delete", name)


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
    token = lab.password("treatments")
    question = json.dumps({"roles": {"stress": {"comm": ["stress"], "fifo": 0}}})
    assert on_network("control", POST, url, question, token, "application/json") == "200"
    assert on_network("control", POST, url, question, token, "text/plain") == "400"
    assert on_network("control", POST, url, STRESS_99, token, "application/json") == "400"
    policies = docker("top", lab.container("stress"), "-eo", "pid,policy").split()[3::2]
    assert set(policies) == {"TS"}


def test_the_middlewares_stores_ask_for_a_password(lab: Lab) -> None:
    """The machine's users reach every container."""
    parts = {"middleware-redis": ("6379", "PING", "NOAUTH"), "middleware-nats": ("4222", "CONNECT {}", "Authorization")}
    lab.compose("--profile", "middleware", "up", "--detach", *parts, code=0)
    for part, (port, said, refusal) in parts.items():
        networks = json.loads(docker("inspect", "--format", "{{json .NetworkSettings.Networks}}", lab.container(part)))
        address = next(iter(networks.values()))["IPAddress"]

        def answer(address: str = address, port: str = port, said: str = said) -> str:
            return as_nobody("/usr/bin/python3", "-c", SAY, address, port, said).stdout

        until(lambda answer=answer, refusal=refusal: refusal in answer(), f"{part} refuses a stranger")


def test_the_doctors_rules_keep_a_neighbour_out(lab: Lab) -> None:
    """From loopback, a container, and the address where the printed clients reach the broker."""
    lab.compose("--profile", "scenario1", "up", "--detach", "broker", BROKER_PATH="port", code=0)
    networks = json.loads(docker("inspect", "--format", "{{json .NetworkSettings.Networks}}", lab.container("broker")))
    goals = [(address, lab.environment["LAB_BROKER_PORT"]) for address in ("127.0.0.1", "172.17.0.1")]
    goals.append((next(iter(networks.values()))["IPAddress"], "1883"))
    old = (parse_version(find_engine().server_version) or LOOPBACK_SAFE) < LOOPBACK_SAFE
    with neighbour() as (name, cable):
        mac = Path(f"/sys/class/net/{cable}/address").read_text().strip()

        def knock() -> list[str]:
            command = ["ip", "netns", "exec", name, sys.executable, "-c", KNOCK, mac]
            return [call(*command, *goal) for goal in goals]

        # Some kernels drop what comes from outside themselves, and the broker needs a moment.
        if old and not any("open" in knock() for _try in range(8)):
            pytest.skip("this machine answers no neighbour, even without the rules")
        # On this cable alone: the machine is not the test's.
        rules = [rule.replace("eth0", cable).split() for rule in LOOPBACK_RULES]
        for rule in rules:
            call(*rule)
        try:
            assert knock() == ["closed"] * 3
        finally:
            for rule in rules:
                call(*(word.replace("-I", "-D") for word in rule))


def test_a_robot_elsewhere_opens_the_broker_to_nobody(lab: Lab) -> None:
    """Without TLS, too: before Docker 28 a neighbour reaches the container's own address."""
    lab.compose("--profile", "scenario1", "up", "--detach", "broker", ROBOT="remote", code=0)
    broker = lab.container("broker")
    networks = json.loads(docker("inspect", "--format", "{{json .NetworkSettings.Networks}}", broker))
    goal = (next(iter(networks.values()))["IPAddress"], "1883")
    until(lambda: on_network("default", ENTER, *goal, "", "") == "5", "the broker refuses a stranger's container")
    assert on_network("default", ENTER, *goal, "controller", "guess") == "5"
    with neighbour() as (name, _cable):
        call("ip", "-n", name, "route", "add", "default", "via", "10.213.9.1")
        knock = call("ip", "netns", "exec", name, sys.executable, "-c", ENTER, *goal, "", "")
    print("a neighbour:", knock)
    assert knock in ("5", "no answer")
    # The lab's own parts have a password.
    known = lab.password("plain/controller")
    password = next(line for line in known.splitlines() if line.startswith("BROKER_PASSWORD=")).partition("=")[2]
    assert on_network("default", ENTER, *goal, "controller", password) == "0"
    live = f"http://127.0.0.1:{lab.environment['LAB_EXPORTER_PORT']}/metrics/live"

    def watched() -> bool:
        with contextlib.suppress(OSError), urllib.request.urlopen(live, timeout=3) as page:
            return b"\nlab_broker_up 1" in page.read()
        return False

    lab.compose("--profile", "scenario1", "up", "--detach", "exporter", ROBOT="remote", code=0)
    until(watched, "the exporter hears the broker")
    who = f"-u controller -P {password} -t request/"
    talk = f"mosquitto_sub {who} -C 1 -W 20 & sleep 1; mosquitto_pub {who} -m T-a1b2-0; wait"
    assert docker("exec", broker, "sh", "-c", talk).strip() == "T-a1b2-0"
    health = "mosquitto_sub -t '$SYS/broker/version' -C 1 -W 3"
    assert "mosquitto" in docker("exec", broker, "sh", "-c", health)


def test_no_stranger_sends_for_a_run(lab: Lab) -> None:
    """Device workers dial the controller from any container of its network, and from other nodes of a Swarm."""
    lab.run("setup", "twin", code=0)
    wanted = {"DEVICE_WORKERS": "1", "PARTS_TIMEOUT_S": "10", "MESSAGES": "20"}
    lab.compose("--profile", "twin", "up", "--detach", "--scale", "twin-devices=0", code=0, **wanted)

    def answer() -> str:
        with contextlib.suppress(AssertionError):
            return on_network("default", JOIN)
        return ""

    assert until(answer, "the controller listens") == "closed"
    lab.wait_for_end("twin")
    _, run = lab.newest()
    assert any("1 device workers wanted, there after 10 s: none" in why for why in run["invalid_because"])


def test_no_other_user_writes_into_results(lab: Lab) -> None:
    """Plain Compose opens the folder for its controller; a pipe or a false run there would be read by all."""
    lab.compose("up", "prepare", code=0)
    made = as_nobody("touch", str(lab.root / "results/false"))
    assert "denied" in made.stderr
    user = docker("run", "--rm", "--user", "1000:1000", "--volume", f"{lab.root}/results:/results",
                  "--entrypoint", "python3", own_image("controller"), "-c", "open('/results/mine', 'w')")  # fmt: skip
    assert user == ""
