"""The robot's lag: asked over UDP, and put together over the cells."""

import socket
import threading
from collections.abc import Iterator

import pytest

from looplab.experiments.loop.scans import robot_lag, robot_lags

LINE = b"lag_max_us=841 lag_mean_us=157.1 lags_over_1ms=2 deadlines=600\n"


@pytest.fixture
def robot() -> Iterator[str]:
    """Answers one question after another; gives host:port."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))

        def serve() -> None:
            for answer in (LINE, b"nonsense", None):
                _question, asker = sock.recvfrom(64)
                if answer is not None:
                    sock.sendto(answer, asker)

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{sock.getsockname()[1]}"


def test_a_robot_says_how_late_it_was(robot: str) -> None:
    assert robot_lag(robot) == {"lag_max_us": 841, "lag_mean_us": 157.1, "lags_over_1ms": 2, "deadlines": 600}
    assert robot_lag(robot) == {}
    # Nothing comes back.
    assert robot_lag(robot) == {}


@pytest.mark.parametrize("address", ["", "127.0.0.1:1", "nobody.invalid:4001", "127.0.0.1:port"])
def test_nobody_there_is_no_lag(address: str) -> None:
    assert robot_lag(address) == {}


def test_a_run_has_the_largest_lag_of_its_cells_and_their_counts() -> None:
    lags = [
        {"lag_max_us": 841, "lag_mean_us": 157.1, "lags_over_1ms": 2, "deadlines": 600},
        {"lag_max_us": 90, "lag_mean_us": 10.0, "lags_over_1ms": 1, "deadlines": 60},
    ]
    cells = [{"robot_lag": lag} for lag in (*lags, {})]
    assert robot_lags(cells) == {"lag_max_us": 841, "lags_over_1ms": 3, "deadlines": 660}
    assert robot_lags([{"robot_lag": {}}]) == {}
