"""The board and the Python client: generator and oscilloscope over UDP, copied edges, and a board that says nothing."""

import contextlib
import os
import socket
import threading
import tty
from collections.abc import Iterator
from contextlib import closing
from threading import Thread
from time import perf_counter_ns

import pytest

from looplab.errors import LabError, MachineError
from looplab.experiments.asip import worker
from looplab.experiments.asip.board import CYCLE_NS
from looplab.experiments.asip.client import AsipClient
from looplab.experiments.asip.oscilloscope import Oscilloscope, Scope
from looplab.experiments.asip.transports import connect
from looplab.experiments.asip.waves import bisect, copy_delays_ns, search_result
from looplab.experiments.asip.workers import WorkerClient

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


def test_a_refused_wave_and_a_board_that_is_gone_are_errors(board: Board, scope: Oscilloscope) -> None:
    with pytest.raises(LabError, match="refused"):
        scope.wave(1_000_000, 10)
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


def test_settling_waits_for_the_generator_and_for_late_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    scope, states = Oscilloscope(""), [Scope(count, 0, left, 0, 0) for count, left in ((0, 4), (2, 2))]
    states += [Scope(count, 0, 0, 0, 0) for count in (4, 5, 6, 7, 8)]
    monkeypatch.setattr(scope, "state", lambda: states.pop(0) if len(states) > 1 else states[0])
    scope.settle(0, 1)
    assert [state.count for state in states] == [8]


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
    # It goes no further than its ends.
    assert searched(1) == [2]
    assert max(searched(1000)) == searched(1000)[-1] == 400


WORDS = {"out": "13", "in": "4", "in_port": "7", "in_bit": "5", "interval_us": "10000", "deadline_us": "10000"}
SILENCE_S = 0.2


@pytest.fixture(name="wire")
def client_and_board() -> Iterator[tuple[AsipClient, int]]:
    """A client, and the board's end of its port."""
    board, port = os.openpty()
    tty.setraw(port)
    client = AsipClient(connect("serial", os.ttyname(port), "test"))
    yield client, board
    client.close()
    os.close(board)
    os.close(port)


def test_a_long_silence_ends_the_tests(wire: tuple[AsipClient, int]) -> None:
    latency = worker.LatencyTests(wire[0], WORDS)
    assert [received for _, _, received in latency.tests(3)] == [worker.ABSENT] * 3
    with pytest.raises(LabError, match=f"no test was answered for {SILENCE_S:g} s"):
        latency.tests(1000, round(SILENCE_S * 1e9))


def test_a_level_from_before_is_no_answer(wire: tuple[AsipClient, int]) -> None:
    """The board notices the first rise alone: the input is high for the client when the next test begins."""
    client, board = wire
    latency = worker.LatencyTests(client, {**WORDS, "deadline_us": "300000"})

    def answer_once() -> None:
        os.read(board, 100)
        os.write(board, b"@I,d,7,20\n")

    Thread(target=answer_once).start()
    (first, second) = latency.tests(2)
    assert first[2] > first[1]
    assert second[2] == worker.ABSENT


def test_every_byte_is_counted_by_what_it_is(wire: tuple[AsipClient, int]) -> None:
    client, board = wire
    levels: list[int] = []
    client.watch(7, 5, levels.append)
    client.begin()
    client.write(13, 1)
    # A state, a change, one of another pin of the port, a damaged one, another port, an analog report, an error.
    os.write(board, b"@I,d,7,0\n@I,d,7,20\n@I,d,7,22\n@I,d,7,x\n@I,d,5,20\n@I,a,1,{0:5}\n~I,d,6{}\n@#,?,1\n")
    while client.serve(perf_counter_ns() + 50_000_000):
        pass
    # The answer to the last question of a session.
    os.write(board, b"@#,?,1\n")
    counts = client.silence()
    assert levels == [1]
    assert {name: counts[name] for name in ("orders", "notices", "reports", "report_bytes")} == {
        "orders": 9, "notices": 9 + 10 + 10 + 9 + 10 + 9 + 7, "reports": 1, "report_bytes": 13,
    }  # fmt: skip
    assert (counts["sent"], counts["received"]) == (9 + 6 + 4, 38 + 13 + 26 + 7)


def test_a_worker_that_ends_within_its_answer_gives_no_half_number() -> None:
    server = socket.create_server(("127.0.0.1", 0))
    with server, closing(WorkerClient("java", "127.0.0.1:{1}".format(*server.getsockname()), 5)) as client:
        worker, _ = server.accept()
        with worker:
            worker.sendall(b"10 20 30\nok orders=18 sent=4")
            worker.shutdown(socket.SHUT_WR)
            with pytest.raises(LabError, match="The java client: it ended"):
                client.ask("stop")
        with pytest.raises(LabError, match="The java client"):
            client.ask("stop")
