"""The bridge of asip as on a Pi: over TLS, with the password and the topics that it may have."""

import contextlib
import os
import socket
import tty
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter_ns

import pytest
from support.lan_broker import LanBroker
from support.parts import HOST, Child, Listener
from support.ports import free_port
from support.waiting import LIMIT_S, until

from looplab.experiments.asip.transports import CLOSED, OPEN, OPENED, SESSION, STATE, connect

TOPIC = "asip/pi"


Bridge = tuple[Child, int, int]


@pytest.fixture
def bridge(lan: LanBroker, start_child: Callable[..., Child], at_end: contextlib.ExitStack) -> Bridge:
    """The bridge, its port on the network, and the board's end of its serial port."""
    board, device = os.openpty()
    tty.setraw(device)
    for end in (board, device):
        at_end.callback(os.close, end)
    port = free_port()
    variables = {
        "BROKER_PAIRING": str(lan.pairing_file()), "BRIDGE_PORT": str(port), "ASIP_TOPIC": TOPIC,
        "ASIP_DEVICE": os.ttyname(device), "FIDELITY": "corrected",
    }  # fmt: skip
    child = start_child("looplab.experiments.asip.bridge", **variables)
    until(lambda: "waits" in child.said() and "bridge" in lan.said(), f"the bridge: {child.said()}")
    return child, port, board


def test_a_session_over_tls_carries_bytes_both_ways(lan: LanBroker, bridge: Bridge) -> None:
    child, _, board = bridge
    # A client is inside the lab, on the plain listener.
    client = connect("mqtt", f"{HOST}:{lan.port}/{TOPIC}", "inside")
    client.write(b"I,d,13,1\n")
    assert os.read(board, 100) == b"I,d,13,1\n"
    os.write(board, b"@I,d,7,20\n")
    assert client.read(perf_counter_ns() + round(LIMIT_S * 1e9)) == b"@I,d,7,20\n"
    client.close()
    until(lambda: "session ended: closed" in child.said(), f"the end: {child.said()}")
    assert "refused" not in lan.said()


def test_the_end_of_the_session_before_is_not_its_own(lan: LanBroker, insider: Listener) -> None:
    """The bridge's word on it may come after the next client has asked; that client then is let in."""
    with ThreadPoolExecutor(1) as pool:
        opening = pool.submit(connect, "mqtt", f"{HOST}:{lan.port}/{TOPIC}", "next")
        until(lambda: OPEN in insider.payloads(f"{TOPIC}/{SESSION}"), "a client that asks")
        insider.say(f"{TOPIC}/{STATE}", CLOSED)
        insider.say(f"{TOPIC}/{STATE}", OPENED)
        opening.result(LIMIT_S).close()


def test_only_the_paired_machine_reaches_the_board(bridge: Bridge) -> None:
    """The broker is at 127.0.0.1, and proved itself there; the stranger comes from another address."""
    child, port, _ = bridge

    def answers(address: str) -> bool:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.bind((address, 0))
            sock.settimeout(0.5)
            sock.sendto(b"?", (HOST, port))
            try:
                return b"broker=" in sock.recv(1000)
            except TimeoutError:
                return False

    until(lambda: answers(HOST), "an answer to the paired machine")
    assert not answers("127.0.0.2")
    with socket.create_connection((HOST, port), LIMIT_S, ("127.0.0.2", 0)) as stranger:
        stranger.settimeout(LIMIT_S)
        assert stranger.recv(1) == b""
    assert "refused a TCP client: 127.0.0.2 is not the paired machine" in child.said()
    with socket.create_connection((HOST, port), LIMIT_S, (HOST, 0)) as paired:
        paired.settimeout(0.5)
        with pytest.raises(TimeoutError):
            paired.recv(1)
