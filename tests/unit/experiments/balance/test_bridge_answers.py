"""What the bridge makes of the lines of a robot on two wheels, framed as published and by lines."""

import pytest

from looplab.experiments.loop.bridge.robot_answers import Answers, Faults

LINE, ERROR = b"-12 340 5 -87", b"ERR tilt"


@pytest.mark.parametrize("framing", ["burst", "line"])
def test_a_state_is_an_answer_to_a_level(framing: str) -> None:
    answers = Answers(framing, Faults())
    answers.begin("looplab mbot_ranger 0.3.0")
    assert answers.ask(b"\xc0") == b"\xc0"
    assert answers.cut(LINE[:5]) == ([], b"")
    (reply,), _ = answers.cut(LINE[5:] + b"\r\n")
    assert (reply.value, reply.stands_for) == (LINE, 1)
    (reply,), _ = answers.cut(ERROR + b"\r\n")
    assert (reply.value, reply.stands_for) == (b"", 1)


def test_two_states_in_a_burst_are_one_answer() -> None:
    answers = Answers("burst", Faults())
    (reply,), _ = answers.cut((LINE + b"\r\n") * 2)
    assert (reply.value, reply.stands_for) == (LINE, 2)
