"""The broker's own counts, as the treatments service collects them while a flood is wanted."""

from collections.abc import Callable
from contextlib import ExitStack

from paho.mqtt import publish
from support.parts import HOST, Broker
from support.waiting import until

from looplab.spec.brokers import BROKERS, DEFAULT
from looplab.treatments.broker import PublishCounts


def test_every_report_is_taken_once_and_in_order(start_broker: Callable[..., Broker], at_end: ExitStack) -> None:
    broker = start_broker(more="allow_anonymous true\nsys_interval 1\n")
    counts = PublishCounts()
    at_end.callback(counts.stop)
    taken: list[tuple[int, int]] = []

    def enough() -> bool:
        publish.single("anything", "x", hostname=HOST, port=broker.port)
        taken.extend(counts.take(BROKERS[DEFAULT], HOST, broker.port))
        return len(taken) >= 2

    until(enough, "two reports of the broker", 30)
    assert taken == sorted(set(taken))
    assert taken[0][0] < taken[-1][0]
    # That broker has a page instead.
    assert counts.take(BROKERS["rabbitmq"], HOST, broker.port + 1) == []
