"""Publisher and subscriber on one thread over a real broker: each message once, with its times, at every QoS."""

import contextlib
from collections.abc import Callable
from time import perf_counter_ns

import pytest
from support.parts import HOST, LIMIT_S, Broker, Listener, until

from looplab.experiments.qos_delay.delivery import TOPIC, Delivery, Ends
from looplab.experiments.qos_delay.parameters import QosDelayParameters
from looplab.run.samples import ANSWERED, WAITING, SampleStore

TOKEN = "0123abcd"
MESSAGES = 60


Begin = Callable[..., tuple[Ends, SampleStore, Delivery]]


@pytest.fixture
def begin(broker: Broker, at_end: contextlib.ExitStack) -> Begin:
    """Return a function that connects both ends to the broker."""

    def start(**more: str) -> tuple[Ends, SampleStore, Delivery]:
        settings = {
            "BROKER_PB": HOST, "BROKER_BS": HOST, "BROKER_PORT": str(broker.port), "MESSAGES": str(MESSAGES),
            "INTERVAL_MS": "2", "DELAYS_MS": "0", "FIDELITY": "corrected",
            # How long a busy machine takes is not what is tested.
            "DEADLINE_MS": f"{1000 * LIMIT_S:.0f}",
        }  # fmt: skip
        p = QosDelayParameters.read({**settings, **more})
        ends, store = Ends(p, TOKEN), SampleStore(p.messages)
        assert ends.connect(LIMIT_S)
        at_end.callback(ends.close)
        return ends, store, Delivery(ends, store, p, TOKEN, p.messages)

    return start


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_every_message_arrives_once_and_in_time(begin: Begin, qos: int) -> None:
    _, store, delivery = begin(QOS=str(qos))
    delivery.repetition(0, MESSAGES, 2_000_000, qos)
    delivery.drain(range(MESSAGES))
    assert list(store["state"]) == [ANSWERED] * MESSAGES
    assert (delivery.counts.duplicates, delivery.counts.out_of_order, delivery.counts.disconnects) == ([0], [0], [0])
    for row in range(MESSAGES):
        due, sent, received = (store[name][row] for name in ("due_ns", "sent_ns", "received_ns"))
        wire_sent, wire_received = store["wire_sent_ns"][row], store["wire_received_ns"][row]
        assert due <= sent <= wire_sent < wire_received <= received
        assert store["due_ns"][row] - store["due_ns"][0] == row * 2_000_000


def test_messages_have_the_length_that_was_asked_for(begin: Begin, listener: Listener) -> None:
    *_, delivery = begin(QOS="0", PAYLOAD_BYTES="31", MESSAGES="10")
    delivery.repetition(0, 10, 2_000_000, 0)
    until(lambda: len(listener.payloads(TOPIC)) >= 10, "ten messages")
    assert listener.payloads(TOPIC) == [f"{TOKEN}-{k:022d}".encode() for k in range(10)]


def test_what_another_sends_is_counted_and_ignored(begin: Begin, listener: Listener) -> None:
    ends, store, delivery = begin(QOS="0", MESSAGES="10")
    wrong = (b"", b"x" * 20, f"{TOKEN}-".encode(), f"{TOKEN}-{'1' * 12}".encode(), f"{TOKEN}-{99:011d}".encode())
    for payload in wrong:
        listener.say(TOPIC, payload)
    ends.wait(perf_counter_ns() + 200_000_000)
    delivery.repetition(0, 10, 2_000_000, 0)
    listener.say(TOPIC, f"{TOKEN}-{3:011d}".encode())
    until(lambda: ends.wait(perf_counter_ns() + 20_000_000) or delivery.counts.duplicates[0], "the duplicate")
    assert (delivery.counts.foreign, delivery.counts.malformed, delivery.counts.duplicates) == (2, 3, [1])
    assert list(store["state"]) == [ANSWERED] * 10


def test_a_broker_that_dies_costs_messages_and_no_run(begin: Begin, broker: Broker) -> None:
    _, store, delivery = begin(QOS="0", DEADLINE_MS="300")
    broker.kill()
    delivery.repetition(0, MESSAGES, 2_000_000, 0)
    delivery.drain(range(MESSAGES))
    assert delivery.counts.disconnects == [2]
    assert list(store["state"]) == [WAITING] * MESSAGES
