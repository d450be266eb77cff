"""The simulated devices: a process for each processor that drives them, on as many hosts as needed."""

import os

from looplab.experiments.middleware.placement import others

# The first process; the next ones listen on the ports above.
PORT = 9210
PROCESS = "lab-devices"
# Has its value on a host that only drives devices: its processes obey no order without it.
TOKEN = "LOAD_TOKEN"


def processors() -> list[int]:
    """Return the processors of the devices: all of a host that only drives devices."""
    every = os.cpu_count() or 1
    return list(range(every)) if os.environ.get(TOKEN) else others(every)


def count() -> int:
    """Return the number of processes: LOAD_PROCESSES, or one for each processor that the devices may use."""
    return int(os.environ.get("LOAD_PROCESSES") or 0) or len(processors())
