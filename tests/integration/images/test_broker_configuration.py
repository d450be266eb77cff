"""The broker's configurations: one factor apart, silent in the hot path, and really in force."""

import json
import subprocess
from typing import Any

import pytest
from support.containers import docker
from support.image_harness import HARDENED, Container, Starter, configuration
from support.waiting import until

from looplab.system import processes

# FIDELITY and TCP_NODELAY by whether the broker then has TCP_NODELAY.
FACTORS = {("thesis", ""): False, ("corrected", "off"): False, ("corrected", ""): True, ("thesis", "on"): True}


def running_broker(image: str, start: Starter, *factors: str) -> Container:
    broker = start(image, options=("--user", "1883:1883", *configuration(*factors)))
    until(lambda: "running" in broker.logs(), "the broker")
    return broker


@pytest.mark.engine
@pytest.mark.parametrize(("factors", "wanted"), FACTORS.items())
def test_it_is_silent_and_its_own_sockets_have_nodelay_as_set(
    mosquitto_image: str, start: Starter, factors: tuple[str, str], wanted: bool
) -> None:
    """Read from the live sockets of the broker, as a run's manifest does."""
    broker = running_broker(mosquitto_image, start, *factors)
    before = broker.logs()
    for word in ("warning", "error", "deprecated", "world", "unable"):
        assert word not in before.lower()
    broker.execute("sh", "-c", "seq 500 | mosquitto_pub -t request/ -q 1 -l")
    assert broker.logs() == before
    listening = ["docker", "exec", broker.id, "mosquitto_sub", "-t", "nothing", "-W", "40"]
    with subprocess.Popen(listening, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as client:
        pid = int(broker.state()["Pid"])

        def sockets() -> list[dict[str, Any]] | str:
            found = processes.tcp_sockets(pid)
            # The broker accepts a socket before it sets its options.
            right = isinstance(found, str) or [entry["tcp_nodelay"] for entry in found] == [wanted]
            return found if right else []

        found = until(sockets, f"a client's connection with TCP_NODELAY {wanted}")
        client.kill()
    if isinstance(found, str):
        pytest.skip(f"reading another user's sockets needs root: {found}")


@pytest.mark.engine
def test_nodelay_shows_in_the_latency_of_qos_1(mosquitto_image: str, floor_image: str, start: Starter) -> None:
    """The clients have TCP_NODELAY on both times: the tens of milliseconds are the broker's own Nagle."""
    median_us = {}
    for name in ("thesis", "corrected"):
        broker = running_broker(mosquitto_image, start, name)
        arguments = ["--messages", "100", "--interval-ms", "20", "--qos", "1", "--nodelay", "1"]
        output = docker("run", "--rm", *HARDENED, "--network", f"container:{broker.id}", floor_image, *arguments)
        median_us[name] = json.loads(output)["O_us"]["p50"]
    assert median_us["thesis"] > 10_000
    assert median_us["corrected"] < median_us["thesis"] / 4
