"""The broker's configurations: one factor apart, silent in the hot path, and really in force."""

import contextlib
import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from support.containers import docker
from support.image_harness import HARDENED, Container, configuration, starter
from support.waiting import until

from looplab.system import processes

# FIDELITY by whether the broker then has TCP_NODELAY; other settings: tests/unit/compose.
NODELAY = {"thesis": False, "corrected": True}


@pytest.fixture(scope="module")
def brokers(mosquitto_image: str) -> Iterator[dict[str, Container]]:
    """A broker that runs at each fidelity."""
    with contextlib.ExitStack() as at_end:
        start = starter(at_end)
        found = {
            fidelity: start(mosquitto_image, options=("--user", "1883:1883", *configuration(fidelity)))
            for fidelity in NODELAY
        }
        for broker in found.values():
            until(lambda broker=broker: "running" in broker.logs(), "the broker")
        yield found


@pytest.mark.engine
@pytest.mark.parametrize(("fidelity", "wanted"), NODELAY.items())
def test_it_is_silent_and_its_own_sockets_have_nodelay_as_set(
    brokers: dict[str, Container], fidelity: str, wanted: bool
) -> None:
    """Read from the live sockets of the broker, as a run's manifest does."""
    broker = brokers[fidelity]
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
def test_nodelay_shows_in_the_latency_of_qos_1(brokers: dict[str, Container], floor_image: str) -> None:
    """The clients have TCP_NODELAY on both times: the tens of milliseconds are the broker's own Nagle."""
    median_us = {}
    for name in ("thesis", "corrected"):
        network = f"container:{brokers[name].id}"
        arguments = ["--messages", "100", "--interval-ms", "20", "--qos", "1"]
        output = docker("run", "--rm", *HARDENED, "--network", network, floor_image, *arguments)
        report = json.loads(output)
        # The floor's own account.
        assert [report[count] for count in ("n", "sent", "lost", "duplicates", "malformed")] == [100, 100, 0, 0, 0]
        median_us[name] = report["O_us"]["p50"]
    assert median_us["thesis"] > 10_000
    assert median_us["corrected"] < median_us["thesis"] / 4
