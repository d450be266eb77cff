"""The program of ./lab listen beside a real broker."""

from collections.abc import Callable

from support.parts import Broker, Child, Listener, python
from support.waiting import until

from looplab.experiments.loop.protocol import TOPIC_ANSWER, TOPIC_REQUEST

LISTEN = python("looplab.experiments.listen")


def test_a_pair_is_printed_and_the_broker_ends_it(
    broker: Broker, listener: Listener, start_command: Callable[..., Child]
) -> None:
    listening = start_command([*LISTEN, "loop"], BROKER_PORT=str(broker.port))

    def ask() -> bool:
        listener.say(TOPIC_REQUEST, "T-run-1", 1)
        return "request/" in listening.said()

    until(ask, "a request")
    listener.say(TOPIC_ANSWER, "run,1,ok,4281000,24.50", 1)
    until(lambda: "answer/" in listening.said(), "its answer")
    assert "1: ok 24.50, R 4.281 ms" in listening.said()
    broker.stop()
    assert listening.wait() == 0


def test_without_a_broker_it_says_so(start_command: Callable[..., Child]) -> None:
    listening = start_command([*LISTEN, "loop"], BROKER_PORT="1")
    assert listening.wait() == 3
    assert "no broker at 127.0.0.1:1" in listening.said()


def test_it_ends_by_itself_after_the_seconds_asked(broker: Broker, start_command: Callable[..., Child]) -> None:
    listening = start_command([*LISTEN, "loop", "0.2"], BROKER_PORT=str(broker.port))
    assert listening.wait() == 0
