"""A real bridge on another network than its broker: the cable pulled, its counts, its word on the broker."""

import contextlib
import errno
import os
import time
from collections.abc import Callable

import pytest
from support.parts import HOST, Broker, Child, Listener, free_port, python, until
from support.wire import Wire

CUT_S = 1.0


class Far:
    """A bridge in the namespace; its broker listens on loopback for the test as well."""

    def __init__(self, broker: Broker, bridge: Child, listener: Listener) -> None:
        self.broker, self.bridge, self.listener = broker, bridge, listener
        until(lambda: listener.last("lab/bridge/status") == b"online", "the far bridge")

    def ask(self, numbers: range) -> None:
        for number in numbers:
            self.listener.say("request/", b"E-far-%d" % number, qos=0)

    def answered(self) -> list[int]:
        payloads = self.listener.payloads("answer/")
        return [int(payload.split(b",")[1]) for payload in payloads if b",ok," in payload]


@pytest.fixture
def far(
    wire: Wire, start_broker: Callable[..., Broker], start_command: Callable[..., Child], at_end: contextlib.ExitStack
) -> Far:
    """A bridge in the namespace, without a robot."""
    port = free_port()
    broker = start_broker(more=f"allow_anonymous true\nlistener {port} {wire.here}\n")
    bridge = start_command(
        wire.command(*python("looplab.experiments.loop.bridge.program")),
        BROKER_HOST=wire.here, BROKER_PORT=str(port), SERIAL_URL=f"socket://{HOST}:{free_port()}", FIDELITY="corrected",
    )  # fmt: skip
    return Far(broker, bridge, at_end.enter_context(contextlib.closing(Listener(broker.port))))


def test_a_cut_of_a_second_costs_no_answer(wire: Wire, far: Far) -> None:
    assert "bridge: broker: connected to" in far.bridge.said()
    instance = far.listener.bridge_info["instance"]
    # TCP keeps what is sent while the cable is out; the connection outlives a second.
    with wire.cut():
        far.ask(range(10))
        time.sleep(CUT_S)
        assert far.answered() == []
    until(lambda: len(far.answered()) == 10, "every answer after the cut")
    assert far.answered() == list(range(10))
    assert b"offline" not in far.listener.payloads("lab/bridge/status")
    assert far.listener.bridge_info["instance"] == instance
    far.broker.stop()
    until(lambda: os.strerror(errno.ECONNREFUSED) in far.bridge.said(), "the bridge's word on the broker")


def test_a_long_cut_ends_in_a_new_connection_of_the_same_bridge(wire: Wire, far: Far) -> None:
    """The bridge gives a silent peer up after 3 s."""
    with wire.cut():
        far.ask(range(5))
        until(lambda: "the network is cut" in far.bridge.said(), "the bridge's word on it")
    before = len(far.listener.payloads("lab/bridge/info"))
    until(lambda: len(far.listener.payloads("lab/bridge/info")) > before, "the bridge's return")
    far.ask(range(5, 10))
    until(lambda: set(range(5, 10)) <= set(far.answered()), "answers after the return")
    assert len(far.answered()) == len(set(far.answered()))
    assert far.listener.bridge_info["disconnects"] == 1
