"""The board's generator and oscilloscope over UDP: answers that are lost are asked for again."""

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from looplab.errors import LabError, MachineError
from looplab.experiments.asip.oscilloscope import Oscilloscope

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
