"""The simulated devices: a process for each processor that drives them, on as many machines as needed."""

import os

from looplab.experiments.middleware.placement import others

# The first process; the next ones listen on the ports above.
PORT = 9210
PROCESS = "lab-devices"


def count() -> int:
    """Return the number of processes: LOAD_PROCESSES, or one for each processor that the devices may use."""
    return int(os.environ.get("LOAD_PROCESSES") or 0) or len(others(os.cpu_count() or 1))
