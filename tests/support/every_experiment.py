"""Runs of every experiment: small ones; one that is being measured, and those that are stored."""

from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns

import numpy as np

from looplab.experiments.middleware.document import live as live_state
from looplab.experiments.registry import EXPERIMENTS
from looplab.run.samples import ABSENT, ANSWERED, SampleStore
from support.run_files import MS, fill, publish_state
from support.simulated_asip_runs import write_throughput_run
from support.simulated_middleware_runs import by_cores, cores_cells, trial
from support.spec_runs import make_runs

# Each message of a running run takes so long, a part of it at the robot where it has one; it stands upright.
TOTAL_NS = 5 * MS
ROWS = {"robot_ns": 4 * MS, "tilt_urad": 20_000, "level": 70}


def begin(live: Path, name: str) -> None:
    """Write a run that is being measured: its first cell of 20 messages is done, its second half way."""
    experiment, scenario = EXPERIMENTS[name], "scenario1" if name == "loop" else name
    p = experiment.read_parameters({"SCENARIO": scenario, "MESSAGES": "20", "REPETITIONS": "1"})
    more: dict[str, object] = {}
    if name == "middleware":
        # It has no rows, but the state of a cell after its first repetition.
        more = live_state(10_000, [trial(cores_cells()[-1], 0, np.random.default_rng(3), by_cores, 1.0)])
    else:
        columns = experiment.part("controller").Controller.columns
        store = SampleStore(p.samples, live / "samples.bin", columns)
        fill(store, range(p.samples), **{name: ROWS.get(name, ABSENT) for name in columns})
        now, sent = perf_counter_ns(), range(min(30, p.samples))
        # An experiment may have a single cell.
        fill(store, sent, due_ns=now, sent_ns=now, received_ns=now + TOTAL_NS, state=ANSWERED)
        more["planned_cells"] = [cell.key_document for cell in p.cells]
    asked = {**p.as_json(), "fidelity": "thesis"}
    publish_state(
        live, "running", f"20260701T000000Z-{scenario}", experiment=name, treatments=[], parameters=asked, **more
    )


def _of(*commands: str) -> Callable[[Path], list[Path]]:
    """Return what writes the runs of these commands into results."""
    return lambda results: make_runs(results, *commands)


# Each writes runs into results.
ENDINGS: dict[str, Callable[[Path], list[Path]]] = {
    "qos-delay": _of("./lab run qos-delay --quick --fidelity corrected", "./lab run qos-delay --quick"),
    "twin": _of("./lab run twin-brokers twin-limit twin --quick"),
    "middleware": _of("./lab run middleware-nodes middleware --repetitions 2 --devices 30,60,120"),
    "asip": lambda results: [*make_runs(results, "./lab run asip --quick"), write_throughput_run(results)],
    "balance": _of("./lab run balance-scenario5 balance --quick"),
    "own": _of("./lab run own-stress own --quick"),
}
# Each writes a run of few messages and returns its folder first; by its scenario, or its experiment.
SMALL: dict[str, Callable[[Path], list[Path]]] = {
    "loop": _of("./lab run scenario1 scenario2 --intervals 20 --messages 10 --repetitions 3"),
    "qos-delay": _of("./lab run qos-delay --delays 2 --quick"),
    "twin": _of("./lab run twin --messages 40 --quick"),
    "middleware": _of("./lab run middleware --repetitions 3 --devices 30,60"),
    "asip": _of("./lab run asip --messages 20 --languages python --transports serial,tcp"),
    "balance": _of("./lab run balance --quick"),
    "own": _of("./lab run own --quick"),
    "asip-throughput": lambda results: [write_throughput_run(results)],
}
