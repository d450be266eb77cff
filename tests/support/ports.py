"""Ports for what tests start."""

import itertools
import os
import random
import socket

# Below 32768, where kernels begin to take ports for outgoing connections; each worker of pytest-xdist has a range of
# its own, so that no two choose the same one before either listens.
FIRST, EACH, WORKERS = 10_000, 5_000, 4
_worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % WORKERS
_numbers = itertools.count(random.randrange(EACH))


def free_port() -> int:
    """A port that nobody listens on just now, on any address; another one each time, for some thousand times."""
    for number in itertools.islice(_numbers, EACH):
        with socket.socket() as probe:
            try:
                probe.bind(("0.0.0.0", FIRST + EACH * _worker + number % EACH))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise AssertionError(f"no port is free from {FIRST + EACH * _worker} on")
