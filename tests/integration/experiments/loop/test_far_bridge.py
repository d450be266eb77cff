"""A real bridge on another network than its broker: the cable pulled, its counts, its word on the broker."""

import contextlib
import errno
import os
import time
from collections.abc import Callable

from support.parts import HOST, Broker, Child, Listener, free_port, python, until
from support.wire import Wire

from looplab.experiments.loop.protocol import ONLINE, TOPIC_BRIDGE_INFO, TOPIC_BRIDGE_STATUS, TOPIC_REQUEST

CUT_S = 1.0


def test_a_short_cut_costs_nothing_and_a_long_one_a_new_connection_of_the_same_bridge(
    wire: Wire, start_broker: Callable[..., Broker], start_command: Callable[..., Child], at_end: contextlib.ExitStack
) -> None:
    """TCP keeps what is sent while the cable is out. The bridge gives a silent peer up after 3 s."""
    port = free_port()
    # It listens on loopback for the test as well.
    broker = start_broker(more=f"allow_anonymous true\nlistener {port} {wire.here}\n")
    bridge = start_command(
        wire.command(*python("looplab.experiments.loop.bridge.program")),
        BROKER_HOST=wire.here, BROKER_PORT=str(port), SERIAL_URL=f"socket://{HOST}:{free_port()}", FIDELITY="corrected",
    )  # fmt: skip
    listener = at_end.enter_context(contextlib.closing(Listener(broker.port)))
    until(lambda: listener.bridge_status == ONLINE, "the far bridge")

    def ask(numbers: range) -> None:
        for number in numbers:
            listener.say(TOPIC_REQUEST, b"E-far-%d" % number, qos=0)

    def answered() -> list[int]:
        return [answer.sequence for answer in listener.answers if answer.status == b"ok"]

    with wire.cut():
        ask(range(10))
        time.sleep(CUT_S)
        assert answered() == []
    until(lambda: len(answered()) == 10, "every answer after the cut")
    assert answered() == list(range(10))
    assert b"offline" not in listener.payloads(TOPIC_BRIDGE_STATUS)
    instance, before = listener.bridge_info["instance"], len(listener.payloads(TOPIC_BRIDGE_INFO))
    with wire.cut():
        ask(range(10, 15))
        until(lambda: "the network is cut" in bridge.said(), "the bridge's word on it")
    until(lambda: len(listener.payloads(TOPIC_BRIDGE_INFO)) > before, "the bridge's return")
    ask(range(15, 20))
    until(lambda: set(range(15, 20)) <= set(answered()), "answers after the return")
    assert len(answered()) == len(set(answered()))
    assert (listener.bridge_info["disconnects"], listener.bridge_info["instance"]) == (1, instance)
    broker.stop()
    until(lambda: os.strerror(errno.ECONNREFUSED) in bridge.said(), "the bridge's word on the broker")
