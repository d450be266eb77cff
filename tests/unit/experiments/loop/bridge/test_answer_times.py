"""What the bridge appends to its answers: each earlier answer once, in order, as soon as it has left."""

from looplab.experiments.loop.bridge.answer_times import MOST_LEAVING, AnswerTimes, Times
from looplab.experiments.loop.protocol import parse_answer

RUN = b"run"


def nothing() -> None:
    """No stamp is there."""


def times(sequence: int, wake_up_ns: int = 70) -> Times:
    return Times(sequence, answered_ns=1000, wire_robot_ns=500, wait_ns=0, wake_up_ns=wake_up_ns)


def told(sent: AnswerTimes, *, stamped: bool = True) -> tuple[int, int, int]:
    """Return what the next answer reports: sequence, wake-up, send path."""
    found = parse_answer(b"run,9,ok,5,20.0" + sent.take(RUN, stamped, nothing))
    assert found is not None
    return found.wire_sequence, found.wake_up_ns, found.send_path_ns


def test_the_kernel_is_asked_if_it_has_not_said_yet() -> None:
    sent, first = AnswerTimes(), times(0)
    sent.add(RUN, first)
    assert sent.take(RUN, True, lambda: first.left(1030)) == b",0,500,0,70,30"


def test_answers_that_leave_late_are_all_reported_in_order() -> None:
    sent, every = AnswerTimes(), [times(sequence) for sequence in range(4)]
    for one in every:
        assert told(sent) == (-1, -1, -1)
        sent.add(RUN, one)
    for one in every:
        one.left(2000)
    assert [told(sent)[0] for _ in range(5)] == [0, 1, 2, 3, -1]


def test_an_answer_without_a_stamp_does_not_hold_up_later_ones() -> None:
    sent, second = AnswerTimes(), times(1)
    sent.add(RUN, times(0))
    sent.add(RUN, second)
    second.left(1001)
    assert [told(sent), told(sent)] == [(0, 70, -1), (1, 70, 1)]


def test_stamps_that_never_come_do_not_fill_the_memory() -> None:
    sent = AnswerTimes()
    for sequence in range(3 * MOST_LEAVING):
        sent.take(RUN, True, nothing)
        sent.add(RUN, times(sequence))
    assert told(sent)[0] == 2 * MOST_LEAVING
