"""How many requests a second this machine answers at most: the loads of a run are shares of it."""

import time
from dataclasses import replace

from looplab.errors import MachineError
from looplab.experiments.middleware import LoadCell
from looplab.experiments.middleware.load import SECOND_NS, Load
from looplab.experiments.middleware.parameters import MiddlewareParameters
from looplab.experiments.middleware.parts import Parts

# Each posts as soon as its last post has ended: together they ask for more than the middleware answers. More of them
# would only wait longer, beyond their deadline.
DEVICES, PERIOD_NS = 50, 2_000_000
WARM_UP_S, MEASURED_S = 4, 8
DEADLINE_NS = 5 * SECOND_NS
LOOK_S = 0.2


def largest(cells: list[LoadCell]) -> LoadCell:
    """Return where the limit is measured: one node, in a container if there is one, on the most processors."""
    return max(cells, key=lambda cell: (cell.container, not cell.balancer, -cell.nodes, cell.cores))


def measure(parts: Parts, cell: LoadCell, p: MiddlewareParameters, token: str) -> float:
    """Return the requests a second that succeed when more devices ask than the middleware answers. Raises LabError."""
    way, name = parts.start(cell, p), f"{token}-limit"
    parts.provision(cell, DEVICES, name)
    plan = replace(
        p.plan(name, DEVICES, way),
        period_ns=PERIOD_NS,
        warm_up_ns=WARM_UP_S * SECOND_NS,
        load_ns=MEASURED_S * SECOND_NS,
        deadline_ns=DEADLINE_NS,
        drop_probability=0.0,
    )
    parts.load.begin(parts.system.name, plan)
    before_s, before = _wait(parts.load, WARM_UP_S)
    after_s, after = _wait(parts.load, WARM_UP_S + MEASURED_S)
    parts.load.end()
    if after <= before:
        raise MachineError(
            "The middleware answered none of its devices.",
            "Give DEVICES as numbers, and see `docker compose logs` of the node.",
        )
    return (after - before) / (after_s - before_s)


def _wait(load: Load, until_s: float) -> tuple[float, int]:
    """Return the time in seconds and the successes by then, once `until_s` have passed."""
    while (seconds := load.progress()[0]) < until_s:
        time.sleep(LOOK_S)
    return seconds, load.requests.succeeded
