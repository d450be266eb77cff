"""Runs of every experiment: small ones; one that is being measured, and those that are stored."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from looplab.experiments.middleware import LoadCell
from looplab.experiments.middleware.document import live as live_state
from looplab.experiments.registry import EXPERIMENTS
from looplab.run.samples import ABSENT, SampleStore
from support.run_files import MS, answer_at_once, fill, publish_state
from support.simulated_asip_runs import write_latency_run, write_throughput_run
from support.simulated_balance_runs import rows_of, write_balance_run
from support.simulated_delay_runs import SYMMETRICAL, one_way, write_delay_run
from support.simulated_middleware_runs import by_cores, cores_cells, trial, write_middleware_run
from support.simulated_own_runs import write_own_run
from support.simulated_runs import simulated_cell, write_run
from support.simulated_twin_runs import experiment_1, experiment_2, single, write_twin_run

LOADS = (30, 60, 120)
# Each message of a running run takes so long, a part of it at the robot where it has one.
TOTAL_NS, ROBOT_NS = 5 * MS, 4 * MS


def begin(live: Path, name: str) -> None:
    """Write a run that is being measured: its first cell of 20 messages is done, its second half way."""
    experiment, scenario = EXPERIMENTS[name], "scenario1" if name == "loop" else name
    p = experiment.read_parameters({"SCENARIO": scenario, "MESSAGES": "20", "REPETITIONS": "1"})
    more: dict[str, object] = {}
    if name == "middleware":
        # It has no rows, but the state of a cell after its first repetition.
        more = live_state(10_000, [trial(cores_cells(LOADS)[-1], 0, np.random.default_rng(3), by_cores, 1.0)])
    else:
        columns = experiment.part("controller").Controller.columns
        store = SampleStore(p.samples, live / "samples.bin", columns)
        fill(store, range(p.samples), **{name: ROBOT_NS if name == "robot_ns" else ABSENT for name in columns})
        if name == "balance":
            fill(store, range(p.samples), **rows_of(p.cells[0].interval_ms, p.samples))
        # An experiment may have a single cell.
        answer_at_once(store, [TOTAL_NS] * min(30, p.samples))
        more["planned_cells"] = [cell.key_document for cell in p.cells]
    asked = {**p.as_json(), "fidelity": "thesis"}
    publish_state(
        live, "running", f"20260701T000000Z-{scenario}", experiment=name, treatments=[], parameters=asked, **more
    )


def _delays(results: Path) -> None:
    write_delay_run(results, start="20260401T000000Z")
    write_delay_run(results, fidelity="corrected", start="20260202T000000Z", ratio=one_way)


def _twins(results: Path) -> None:
    spread = {"single": 0.01, "central": 0.01, "distributed": 0.01}
    rates = {(1, "single"): 15.0, (2, "central"): 14.0, (2, "distributed"): 14.0}
    hosts = [{"host": host, "sent": 100, "stored": 100, "start_error_us": 250.0, "fault": ""} for host in ("a", "b")]
    far = [replace(one, more={"device_workers": hosts}) for one in experiment_2(spread, rates, iterations=2)]
    write_twin_run(results, far, scenario="twin-brokers")
    limit = single(0.1, "copy", more={"limit_per_s": 9000.0, "limited_by": "instance"})
    write_twin_run(results, [limit], scenario="twin-limit")
    write_twin_run(results, experiment_1())


def _middleware(results: Path) -> None:
    write_middleware_run(results, "middleware-nodes", repetitions=2)
    write_middleware_run(results, cells=cores_cells(LOADS), repetitions=2, start="20260703T000000Z")


def _asip(results: Path) -> None:
    write_latency_run(results)
    write_throughput_run(results)


def _balance(results: Path) -> None:
    write_balance_run(results, "balance-scenario5", start="20260704T010000Z")
    write_balance_run(results)


def _own(results: Path) -> None:
    write_own_run(results, "own-stress", start="20260801T010000Z", total_ms=24)
    write_own_run(results)


# Each writes runs into results.
ENDINGS: dict[str, Callable[[Path], None]] = {
    "qos-delay": _delays, "twin": _twins, "middleware": _middleware, "asip": _asip, "balance": _balance,
    "own": _own,
}  # fmt: skip


def _small_loop(results: Path, start: str = "20260101T000000Z") -> Path:
    """A run of scenario1, and one of scenario2 beside it."""
    rng = np.random.default_rng(1)
    news = {"bridge": {"counts": {"merged": 3}}, "events": [{"topic": "lab/robot/status", "status": "offline"}]}
    first, _ = (
        write_run(results, scenario, start=start, cells={(20.0, 0): simulated_cell(rng, 3, 10, us, 4290)}, changes=news)
        for scenario, us in (("scenario1", 900), ("scenario2", 1500))
    )
    return first


_BOXES = [LoadCell.keyed(box, False, 1, 1, devices) for box in (False, True) for devices in (30, 60)]
# Each writes a run of few messages and returns its folder; by its scenario, or its experiment.
SMALL: dict[str, Callable[..., Path]] = {
    "loop": _small_loop,
    "qos-delay": partial(write_delay_run, pairs=SYMMETRICAL[:1]),
    "twin": lambda results, **more: write_twin_run(results, [single(100), single(10)], **{"messages": 40, **more}),
    "middleware": partial(write_middleware_run, cells=_BOXES, repetitions=3),
    "asip": partial(write_latency_run, cells=tuple(("python", way, "one") for way in ("serial", "tcp")), tests=20),
    "balance": write_balance_run,
    "own": write_own_run,
    "asip-throughput": partial(write_throughput_run, cells=(("java", "tcp", "one"),)),
}
