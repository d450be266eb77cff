"""How many requests a second this machine answers at most: the loads of a run are shares of it."""

import time
from collections.abc import Callable

from looplab.errors import MachineError
from looplab.experiments.middleware import LoadCell
from looplab.experiments.middleware.devices.requests import Plan
from looplab.experiments.middleware.parameters import MiddlewareParameters
from looplab.experiments.middleware.parts import Parts

# Each posts as soon as its last post has ended: together they ask for more than the middleware answers. More of them
# would only wait longer, beyond their deadline.
DEVICES, PERIOD_NS = 50, 2_000_000
WARM_UP_S, MEASURED_S = 4.0, 8.0
DEADLINE_NS = 5_000_000_000
LOOK_S = 0.2


def largest(cells: list[LoadCell]) -> LoadCell:
    """Return where the limit is measured: one node, in a container if there is one, on the most processors."""
    return max(cells, key=lambda cell: (cell.container, not cell.balancer, -cell.nodes, cell.cores))


def measure(parts: Parts, cell: LoadCell, p: MiddlewareParameters, token: str) -> float:
    """Return the requests a second that succeed when more devices ask than the middleware answers. Raises LabError."""
    way = parts.start(cell, p)
    parts.provision(cell, DEVICES, f"{token}-limit")
    plan = Plan(
        name=f"{token}-limit",
        first=0,
        devices=DEVICES,
        routes=way["routes"],
        certificate=way["certificate"],
        period_ns=PERIOD_NS,
        warm_up_ns=round(WARM_UP_S * 1e9),
        load_ns=round(MEASURED_S * 1e9),
        deadline_ns=DEADLINE_NS,
        payload_bytes=p.payload_bytes,
        drop_probability=0.0,
        seed=0,
    )
    parts.load.begin(parts.system.name, plan)
    before_s, before = _wait(parts, lambda seconds: seconds >= WARM_UP_S)
    after_s, after = _wait(parts, lambda seconds: seconds >= WARM_UP_S + MEASURED_S)
    parts.load.end()
    if after <= before:
        raise MachineError(
            "The middleware answered none of its devices.",
            "Give DEVICES as numbers, and see `docker compose logs` of the node.",
        )
    return (after - before) / (after_s - before_s)


def _wait(parts: Parts, over: Callable[[float], bool]) -> tuple[float, int]:
    """Return the time in seconds and the successes by then, once `over` that time."""
    while True:
        progress = parts.load.progress()
        seconds = progress["now_ns"] / 1e9
        if over(seconds):
            return seconds, sum(row["succeeded"] for row in progress["seconds"])
        time.sleep(LOOK_S)
