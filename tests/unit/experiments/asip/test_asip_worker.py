"""The Python client against a board that says nothing."""

import os
import socket
import tty

import pytest

from looplab.errors import LabError
from looplab.experiments.asip import worker
from looplab.experiments.asip.client import AsipClient
from looplab.experiments.asip.transports import Way, connect
from looplab.experiments.asip.workers import WorkerClient

WORDS = {"out": "13", "in": "4", "in_port": "7", "in_bit": "5", "interval_us": "10000", "deadline_us": "10000"}
SILENCE_S = 0.2


def test_a_long_silence_ends_the_tests() -> None:
    board, port = os.openpty()
    tty.setraw(port)
    try:
        latency = worker.Latency(AsipClient(connect(Way("serial", os.ttyname(port)), "test")), WORDS)
        assert [received for _, _, received in latency.tests(3)] == [worker.ABSENT] * 3
        with pytest.raises(LabError, match=f"no test was answered for {SILENCE_S:g} s"):
            latency.tests(1000, round(SILENCE_S * 1e9))
    finally:
        os.close(board)
        os.close(port)


def test_a_controller_hangs_up_when_it_is_done() -> None:
    """A fault that is handled holds it; the worker would wait with the next controller."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        with WorkerClient("python", "127.0.0.1:{1}".format(*server.getsockname())) as held:
            worker, _ = server.accept()
        with worker:
            worker.settimeout(5)
            assert worker.recv(100) == b"", f"{held} is closed"
