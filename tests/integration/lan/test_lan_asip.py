"""The bridge of asip as on a Pi: over TLS, with the password and the topics that it may have."""

import os
import tty
from pathlib import Path
from time import perf_counter_ns

from support.lan_broker import LanBroker
from support.parts import HOST, Child, python
from support.ports import free_port
from support.waiting import LIMIT_S, until

from looplab.experiments.asip.transports import Way, connect

TOPIC = "asip/pi"


def test_a_session_over_tls_carries_bytes_both_ways(lan: LanBroker, tmp_path: Path) -> None:
    board, port = os.openpty()
    tty.setraw(port)
    variables = {
        "BROKER_PAIRING": str(lan.pairing_file()), "BRIDGE_PORT": str(free_port()), "ASIP_TOPIC": TOPIC,
        "ASIP_DEVICE": os.ttyname(port), "FIDELITY": "corrected",
    }  # fmt: skip
    bridge = Child(python("looplab.experiments.asip.bridge"), tmp_path / "bridge.log", variables)
    try:
        until(lambda: "waits" in bridge.said() and "bridge" in lan.said(), f"the bridge: {bridge.said()}")
        # A client is inside the lab, on the plain listener.
        client = connect(Way("mqtt", f"{HOST}:{lan.port}/{TOPIC}"), "inside")
        client.write(b"I,d,13,1\n")
        assert os.read(board, 100) == b"I,d,13,1\n"
        os.write(board, b"@I,d,7,20\n")
        assert client.read(perf_counter_ns() + round(LIMIT_S * 1e9)) == b"@I,d,7,20\n"
        client.close()
        until(lambda: "session ended: closed" in bridge.said(), f"the end: {bridge.said()}")
        assert "refused" not in lan.said()
    finally:
        bridge.close()
        os.close(board)
        os.close(port)
