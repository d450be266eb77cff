"""The broker's configurations: one factor apart, silent in the hot path, and really in force."""

import subprocess
from typing import Any

import pytest
from support.image_harness import Container
from support.waiting import until

from looplab.system import processes


@pytest.mark.engine
@pytest.mark.parametrize(("broker", "wanted"), [("thesis", False), ("corrected", True)], indirect=["broker"])
def test_it_is_silent_and_its_own_sockets_have_nodelay_as_set(broker: Container, wanted: bool) -> None:
    """Read from the live sockets of the broker, as a run's manifest does; other settings: tests/unit/compose."""
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
