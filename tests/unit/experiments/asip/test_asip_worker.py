"""The Python client against a board that says nothing, or says what counts."""

import os
import socket
import tty
from collections.abc import Iterator
from contextlib import closing
from threading import Thread
from time import perf_counter_ns

import pytest

from looplab.errors import LabError
from looplab.experiments.asip import worker
from looplab.experiments.asip.client import AsipClient
from looplab.experiments.asip.transports import connect
from looplab.experiments.asip.workers import WorkerClient

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
    latency = worker.LatencyTests(client, WORDS)

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


def test_an_answer_has_times_and_facts_or_says_what_is_wrong() -> None:
    server = socket.create_server(("127.0.0.1", 0))
    with server, closing(WorkerClient("java", "127.0.0.1:{1}".format(*server.getsockname()), 5)) as client:
        worker, _ = server.accept()
        with worker:
            worker.sendall(b"10 20 30\n40 50 -1\nok orders=18 sent=40\nok runtime=OpenJDK_21,_JIT\nerror no port\n")
            answer = client.ask("latency", tests=2)
            assert worker.recv(100) == b"latency tests=2\n"
            assert (answer.times, answer.facts) == ([[10, 20, 30], [40, 50, -1]], {"orders": "18", "sent": "40"})
            assert client.runtime() == "OpenJDK 21, JIT"
            with pytest.raises(LabError, match="The java client: no port"):
                client.ask("follow")
            # Half a number.
            worker.sendall(b"ok orders=18 sent=4")
            worker.shutdown(socket.SHUT_WR)
            with pytest.raises(LabError, match="The java client: it ended"):
                client.ask("stop")
        with pytest.raises(LabError, match="The java client"):
            client.ask("stop")
