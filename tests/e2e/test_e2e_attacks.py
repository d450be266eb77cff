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
from support.mqtt_packets import CONNECT, packet, text
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


# A neighbour sends a packet for each address to this machine's card, and tells whether a port there takes a connection.
KNOCK = """
import random, sys
from scapy.all import IP, TCP, Ether, conf, srp
conf.verb = 0
# A port of its own: the answer to an earlier knock may be sent again.
own = random.randrange(20000, 60000)
to = Ether(dst=sys.argv[1])
goals = [goal.split(":") for goal in sys.argv[2:]]
frames = [to / IP(src="10.213.9.2", dst=address) / TCP(sport=own + number, dport=int(port), flags="S")
          for number, (address, port) in enumerate(goals)]
answered, _ = srp(frames, iface="eth0", timeout=2)
taken = {sent[TCP].sport for sent, answer in answered if TCP in answer and answer[TCP].flags == "SA"}
print(*("open" if frame[TCP].sport in taken else "closed" for frame in frames))
"""


# Prints in hexadecimal digits what a server says, up to a silence, to who says so.
TALK = """
import socket, sys
heard = b""
try:
    with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=3) as sock:
        sock.sendall(bytes.fromhex(sys.argv[3]))
        while chunk := sock.recv(1000):
            heard += chunk
except OSError:
    pass
print(heard.hex())
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


def hello(*known: str) -> str:
    """Return the CONNECT of a client with this name and password, or without, in hexadecimal digits."""
    words = b"".join(map(text, ("me", *known)))
    return packet(CONNECT, text("MQTT") + bytes([4, 0xC2 if known else 2, 0, 60]) + words).hex()


@pytest.fixture(scope="module")
def parts(session_lab: Lab) -> Iterator[Lab]:
    """Parts that are attacked one after the other, a small load among them, and the printed clients' way in."""
    services = ("stress", "broker", "middleware-redis", "middleware-nats")
    small = {"STRESS_CPU": "1", "STRESS_IO": "1", "STRESS_VM": "1", "STRESS_VM_BYTES": "8M", "BROKER_PATH": "port"}
    profiles = ("--profile", "scenario2", "--profile", "middleware")
    session_lab.compose(*profiles, "up", "--detach", *services, code=0, **small)
    # Its processes are looked at; their work would take a processor from every test here.
    docker("pause", session_lab.container("stress"))
    yield session_lab
    session_lab.down()


def addresses(part: str) -> dict[str, str]:
    """Return the address of a container on each of the lab's networks."""
    networks = json.loads(docker("inspect", "--format", "{{json .NetworkSettings.Networks}}", part))
    return {name.rpartition("_")[2]: network["IPAddress"] for name, network in networks.items()}


def test_nobody_schedules_the_parts_of_a_run(parts: Lab) -> None:
    found = addresses(parts.container("treatments"))
    # On the network of broker and bridge nothing listens.
    url = f"http://{found['default']}:9100/facts"
    assert "refused" in on_network("default", POST, url, STRESS_99, "", "application/json")
    # The machine's users reach every container; they have no token.
    url = f"http://{found['control']}:9100/facts"
    for token in ("", "guess"):
        assert as_nobody("/usr/bin/python3", "-c", POST, url, STRESS_99, token, "application/json").stdout == "401\n"
    file = docker("volume", "inspect", "--format", "{{.Mountpoint}}", f"{PROJECT}_identities") + "/treatments"
    assert "denied" in as_nobody("cat", file).stderr
    # A controller has it: it sends JSON alone, and asks for no priority of a load.
    token = parts.password("treatments")
    question = json.dumps({"roles": {"stress": {"comm": ["stress"], "fifo": 0}}})
    assert on_network("control", POST, url, question, token, "application/json") == "200"
    assert on_network("control", POST, url, question, token, "text/plain") == "400"
    assert on_network("control", POST, url, STRESS_99, token, "application/json") == "400"
    policies = docker("top", parts.container("stress"), "-eo", "pid,policy").split()[3::2]
    assert set(policies) == {"TS"}


@pytest.mark.parametrize(
    ("part", "port", "said", "refusal"),
    [("middleware-redis", "6379", "PING", b"NOAUTH"), ("middleware-nats", "4222", "CONNECT {}", b"Authorization")],
)
def test_the_middlewares_stores_ask_for_a_password(parts: Lab, part: str, port: str, said: str, refusal: bytes) -> None:
    """The machine's users reach every container."""
    (address,) = addresses(parts.container(part)).values()
    question = ("/usr/bin/python3", "-c", TALK, address, port, f"{said}\r\nPING\r\n".encode().hex())
    until(lambda: refusal in bytes.fromhex(as_nobody(*question).stdout), f"{part} refuses a stranger")


def test_no_other_user_writes_into_results(parts: Lab) -> None:
    """Plain Compose opens the folder for its controller; a pipe or a false run there would be read by all."""
    made = as_nobody("touch", str(parts.root / "results/false"))
    assert "denied" in made.stderr
    user = docker("run", "--rm", "--user", "1000:1000", "--volume", f"{parts.root}/results:/results",
                  "--entrypoint", "python3", own_image("controller"), "-c", "open('/results/mine', 'w')")  # fmt: skip
    assert user == ""


def test_the_doctors_rules_keep_a_neighbour_out(parts: Lab) -> None:
    """From loopback, a container, and the address where the printed clients reach the broker."""
    goals = [f"{address}:{parts.environment['LAB_BROKER_PORT']}" for address in ("127.0.0.1", "172.17.0.1")]
    goals.append(f"{addresses(parts.container('broker'))['default']}:1883")
    old = (parse_version(find_engine().server_version) or LOOPBACK_SAFE) < LOOPBACK_SAFE
    with neighbour() as (name, cable):
        mac = Path(f"/sys/class/net/{cable}/address").read_text().strip()

        def knock() -> list[str]:
            return call("ip", "netns", "exec", name, sys.executable, "-c", KNOCK, mac, *goals).split()

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
    lab.compose("--profile", "scenario1", "up", "--detach", "broker", "exporter", ROBOT="remote", code=0)
    broker = lab.container("broker")
    goal = (addresses(broker)["default"], "1883")

    def entered(*known: str) -> bytes:
        """What the broker answers to a container: 0 is in, 5 refused."""
        return bytes.fromhex(on_network("default", TALK, *goal, hello(*known)))[3:4]

    until(lambda: entered() == b"\5", "the broker refuses a stranger's container")
    assert entered("controller", "guess") == b"\5"
    with neighbour() as (name, _cable):
        call("ip", "-n", name, "route", "add", "default", "via", "10.213.9.1")
        knock = call("ip", "netns", "exec", name, sys.executable, "-c", TALK, *goal, hello())
    print("a neighbour:", knock)
    assert bytes.fromhex(knock)[3:4] in (b"\5", b"")
    # The lab's own parts have a password.
    known = lab.password("plain/controller")
    password = next(line for line in known.splitlines() if line.startswith("BROKER_PASSWORD=")).partition("=")[2]
    assert entered("controller", password) == b"\0"
    live = f"http://127.0.0.1:{lab.environment['LAB_EXPORTER_PORT']}/metrics/live"

    def watched() -> bool:
        with contextlib.suppress(OSError), urllib.request.urlopen(live, timeout=3) as page:
            return b"\nlab_broker_up 1" in page.read()
        return False

    until(watched, "the exporter hears the broker")
    who = f"-u controller -P {password} -t request/"
    talk = f"mosquitto_sub {who} -C 1 -W 20 & sleep 1; mosquitto_pub {who} -m T-a1b2-0; wait"
    assert docker("exec", broker, "sh", "-c", talk).strip() == "T-a1b2-0"
    health = "mosquitto_sub -t '$SYS/broker/version' -C 1 -W 3"
    assert "mosquitto" in docker("exec", broker, "sh", "-c", health)
