"""The board's generator and oscilloscope over UDP; edges of a wave that were copied, and the search for the fastest."""

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from looplab.errors import LabError, MachineError
from looplab.experiments.asip.board import CYCLE_NS
from looplab.experiments.asip.oscilloscope import Oscilloscope, Scope
from looplab.experiments.asip.waves import bisect, copy_delays_ns, search_result

# Of a question that is lost.
TIMEOUT_S = 0.05


EDGES = [("E4", 1, 100), ("B7", 1, 150), ("E4", 0, 200), ("B7", 0, 260), ("E4", 1, 300)]


class Board(threading.Thread):
    """Answers questions as signals.c does, at most two edges at a time; the first question of all is lost."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.socket.getsockname()[1]}"
        self.questions: list[str] = []

    def run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                data, where = self.socket.recvfrom(100)
                self.questions.append(data.decode())
                if len(self.questions) > 1:
                    self.socket.sendto(self.answer(*data.decode().split()).encode(), where)

    def answer(self, verb: str, number: str, half: str = "", _edges: str = "") -> str:
        if verb == "wave":
            return f"wave={number} cycle=7\n" if int(half) >= 16 else "error no generator, or less than 1 us\n"
        head = f"from={number} count={len(EDGES)} cycle=900 left=0 bytes_to_board=18 bytes_to_client=20\n"
        return head + "".join(f"{pin} {level} {cycle}\n" for pin, level, cycle in EDGES[int(number) : int(number) + 2])


@pytest.fixture
def board() -> Iterator[Board]:
    found = Board()
    found.start()
    yield found
    found.socket.close()


@pytest.fixture
def scope(board: Board) -> Oscilloscope:
    return Oscilloscope(board.address, TIMEOUT_S)


def test_all_edges_come_though_no_answer_holds_them_all(scope: Oscilloscope) -> None:
    assert scope.edges(1) == EDGES[1:]
    state = scope.state()
    assert (state.count, state.left, state.bytes_to_board, state.bytes_to_client) == (5, 0, 18, 20)


def test_a_wave_is_begun_once_though_its_question_was_lost(board: Board, scope: Oscilloscope) -> None:
    # A whole number of cycles each half period.
    assert scope.wave(300, 600) == 16e6 / 2 / 26667 == pytest.approx(300, rel=1e-4)
    lost, again = board.questions
    assert lost == again
    assert again.endswith(" 26667 600")


def test_a_wave_that_the_generator_refuses_is_an_error(scope: Oscilloscope) -> None:
    with pytest.raises(LabError, match="refused"):
        scope.wave(1_000_000, 10)


def test_a_board_that_is_gone_is_an_error(board: Board, scope: Oscilloscope) -> None:
    board.socket.close()
    with pytest.raises(MachineError):
        scope.state()


WAVE, COPY = 2, 13


@pytest.mark.parametrize(
    ("seen", "cycles"),
    [
        # Several are on their way at once.
        ([(WAVE, 1, 0), (WAVE, 0, 10), (WAVE, 1, 20), (COPY, 1, 28), (COPY, 0, 36), (COPY, 1, 44)], [28, 24]),
        ([(WAVE, 1, 0), (COPY, 1, 6), (WAVE, 0, 10), (WAVE, 1, 20), (WAVE, 1, 40), (COPY, 1, 56)], [6, None, 16]),
        # As many came out as went in, but one is the late copy of a former edge, and one is lost.
        ([(COPY, 1, 2), (WAVE, 1, 10), (WAVE, 1, 30), (COPY, 1, 36)], [None, 6]),
        # Edges of another level are no copies.
        ([(WAVE, 1, 0), (COPY, 0, 5)], [None]),
        ([], []),
    ],
)
def test_each_rising_edge_has_its_copy_or_none(seen: list[tuple[int, int, int]], cycles: list[int | None]) -> None:
    assert copy_delays_ns(seen) == [None if one is None else one * CYCLE_NS for one in cycles]


class Slow(Oscilloscope):
    """Its generator ends, and the copies come later still."""

    def __init__(self, states: list[tuple[int, int]]) -> None:
        super().__init__("")
        self.states = states

    def state(self) -> Scope:
        count, left = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        return Scope(count, 0, left, 0, 0)


def test_settling_waits_for_the_generator_and_for_late_copies() -> None:
    scope = Slow([(0, 4), (2, 2), (4, 0), (5, 0), (6, 0), (7, 0), (8, 0)])
    scope.settle(0, 1)
    assert scope.states == [(8, 0)]


def searched(limit_hz: float, steps: int = 100) -> list[float]:
    """The frequencies that are tried where all up to `limit_hz` are copied."""
    tried: list[float] = []

    def tracked(frequency_hz: float) -> bool:
        tried.append(frequency_hz)
        return frequency_hz <= limit_hz

    bisect(tracked, 2, 400, 0.01, steps)
    return tried


@pytest.mark.parametrize("limit_hz", [2, 3.7, 50, 309.6, 395])
def test_the_search_ends_within_its_resolution_of_the_limit(limit_hz: float) -> None:
    tried = searched(limit_hz)
    found = search_result([(hz, hz <= limit_hz) for hz in tried])
    assert found["untracked_hz"] - found["tracked_hz"] <= 0.01 * found["untracked_hz"]
    # Never twice the same, and no more steps than halving takes.
    assert len(set(tried)) == len(tried) <= 17
    assert searched(limit_hz, 5) == tried[:5]


def test_the_search_goes_no_further_than_its_ends() -> None:
    assert searched(1) == [2]
    everything = searched(1000)
    assert everything[-1] == max(everything) == 400
