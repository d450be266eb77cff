"""What ./lab listen prints: whole pairs, at most 20 lines a second, nothing that changes a terminal."""

from looplab.experiments.listen import View
from looplab.experiments.loop.protocol import decode

ANSWER = b"run,%d,ok,4281000,24.50,0,4300000,0,,"


def heard(view: View, topic: str, payload: bytes, now_s: float) -> list[str]:
    return list(view.lines(topic, payload, now_s))


def test_a_request_and_its_answer_are_decoded() -> None:
    view = View(decode)
    assert heard(view, "request/", b"T-run-7", 5.0) == ["request/  7: temperature? of run run"]
    answer = "answer/   7: ok 24.50, R 4.281 ms"
    assert heard(view, "answer/", ANSWER % 7, 5.005) == [answer]


def test_pairs_stay_whole_at_most_twenty_lines_a_second() -> None:
    view, shown = View(decode), []
    for number in range(500):
        now_s = number * 0.01
        shown += heard(view, "request/", b"E-run-%d" % number, now_s)
        shown += heard(view, "answer/", ANSWER % number, now_s + 0.004)
    asked = [line.split()[1] for line in shown if line.startswith("request/")]
    answered = [line.split()[1] for line in shown if line.startswith("answer/")]
    assert asked == answered
    assert 40 <= len(asked) <= 51
    # Between two that are shown: the other requests with their answers.
    assert "(18 not shown)" in shown[2]


def test_an_answer_to_nothing_that_was_shown_is_left_out() -> None:
    assert heard(View(decode), "answer/", ANSWER % 7, 1.0) == []


def test_other_payloads_cannot_change_the_terminal() -> None:
    (line,) = heard(View(decode), "asip/board/out", b"@I,\x1b[2J\xff\n", 1.0)
    assert line.isprintable()
    assert line.startswith("asip/board/out @I,.[2J")
