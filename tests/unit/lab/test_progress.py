"""How a run goes, as a person sees it: one rewritten line in a terminal, few plain lines in a log."""

import io
from typing import Any

import pytest
from support.terminal import Terminal

from looplab.lab.progress import PLAIN_EVERY_S, RunProgress
from looplab.system.terminal import fitted


def repetition(done: int, elapsed_s: float = 0.0, **changes: Any) -> dict[str, Any]:
    event = {"event": "repetition", "cell": "20 ms QoS 1 3/10", "messages_done": done, "messages": 1000}
    return {**event, "seconds_left": (1000 - done) / 50, "elapsed_s": elapsed_s, **changes}


def test_a_terminal_sees_one_line_that_rewrites_itself() -> None:
    stream = Terminal()
    progress = RunProgress(stream)
    for done in (250, 500, 1000):
        progress.show(repetition(done))
    text = stream.getvalue()
    assert "\n" not in text
    last = text.split("\r\x1b[K")[-1]
    assert "100%" in last
    assert "[########################]" in last
    assert "50%" in text.split("\r\x1b[K")[-2]
    assert "20 ms QoS 1 3/10" in last


def test_a_narrow_terminal_breaks_lines_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    text = "lab: a sentence of more than forty characters, all of it\n  ./lab run scenario0 --fidelity corrected"
    assert fitted(text, io.StringIO()) == text
    lines = fitted(text, Terminal()).splitlines()
    assert lines == [
        "lab: a sentence of more than forty", "  characters, all of it", "  ./lab run scenario0 --fidelity",
        "  corrected",
    ]  # fmt: skip


def test_a_line_shows_the_time_left_within_a_terminal() -> None:
    stream = Terminal()
    progress = RunProgress(stream)
    progress.show(repetition(100, seconds_left=125.0))
    assert "2 min 05 s left" in stream.getvalue()
    progress.show({"event": "waiting", "what": "broker at " + "b" * 300})
    assert max(len(line) for line in stream.getvalue().split("\r\x1b[K")) <= 79


def test_a_log_gets_a_line_now_and_then_and_the_last_one() -> None:
    stream = io.StringIO()
    progress = RunProgress(stream)
    for step in range(1, 101):
        progress.show(repetition(10 * step, elapsed_s=step * PLAIN_EVERY_S / 20))
    lines = stream.getvalue().splitlines()
    assert len(lines) == 6
    assert lines[0].split()[0] == "1%"
    assert lines[-1].split()[0] == "100%"
    assert "\x1b" not in stream.getvalue()


def test_plain_text_of_the_controller_is_passed_on_whole() -> None:
    stream = Terminal()
    progress = RunProgress(stream)
    progress.show(repetition(10))
    progress.show({"event": "text", "text": "Traceback: " + "x" * 200})
    assert stream.getvalue().endswith("\r\x1b[KTraceback: " + "x" * 200 + "\n")
