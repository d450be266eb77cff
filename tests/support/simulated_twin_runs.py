"""Runs of twin made of a known service time, in the very files that the experiment writes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from looplab.experiments.twin import TwinCell
from looplab.experiments.twin.document import queues_and_rates
from looplab.run.samples import ABSENT, ANSWERED, FAILED, WAITING
from support.run_files import Simulated, simulate

# The paper's figure as a service time: 14.85 messages a second.
PUBLISHED_S = 1 / 14.85
Rates = dict[tuple[int, str], float]
# The paper's rates of each broker.
PUBLISHED_RATES: Rates = {
    (1, "single"): 14.85, (2, "central"): 13.84, (4, "central"): 12.02, (2, "distributed"): 13.50,
    (4, "distributed"): 12.68,
}  # fmt: skip
TRAVEL_NS = 200_000


@dataclass(frozen=True)
class Truth:
    """A cell, the time that its instance takes for a message of each broker, and how many messages are not stored."""

    cell: TwinCell
    service_s: float = PUBLISHED_S
    # A factor on each broker's service time, so that brokers and repetitions differ.
    factors: Sequence[float] = ()
    lost: int = 0
    refused: int = 0
    copies: int = 0
    more: dict[str, Any] = field(default_factory=dict)


def single(interval_ms: float, mode: str = "prototype", qos: int = 1, repetition: int = 0, **more: Any) -> Truth:
    """Return the truth of a cell of one broker."""
    return Truth(TwinCell.keyed(interval_ms, 1, "single", mode, qos, repetition), **more)


def experiment_1() -> list[Truth]:
    """Return the published intervals with the published rate."""
    return [single(ms) for ms in (100, 80, 67, 50, 40, 20, 10)]


def experiment_2(spread: dict[str, float], rates: Rates) -> list[Truth]:
    """Return brokers with these rates each, whose service times have a relative SD of `spread` by placement."""
    rng = np.random.default_rng(11)
    return [
        Truth(
            TwinCell.keyed(10, brokers, placement, "prototype", 1, iteration),
            1 / rate,
            tuple(1 + spread[placement] * rng.standard_normal(brokers)),
        )
        for iteration in range(5)
        for (brokers, placement), rate in rates.items()
    ]


def columns_of(truth: Truth, at: int, messages: int) -> dict[str, list[int]]:
    """Return the rows of the cell number `at`: message k leaves at k intervals through broker k mod brokers.

    The messages of a broker are stored one after the other.
    """
    cell, interval_ns = truth.cell, round(truth.cell.interval_ms * 1e6)
    # Cells follow each other, far enough apart.
    start = 10**12 + at * messages * 10**9
    free = [0] * cell.brokers
    last = messages - truth.lost - truth.refused
    columns: dict[str, list[int]] = {
        "due_ns": [start + k * interval_ns for k in range(messages)],
        "sent_ns": [start + k * interval_ns + 20_000 for k in range(messages)],
        "intended_ns": [ABSENT] * messages,
        "copies": [int(k < truth.copies) for k in range(messages)],
        "arrived_ns": [ABSENT] * messages,
        "received_ns": [ABSENT] * messages,
        "state": [ANSWERED] * last + [FAILED] * truth.refused + [WAITING] * truth.lost,
    }
    for k in range(last):
        broker = k % cell.brokers
        factor = truth.factors[broker] if truth.factors else 1.0
        begun = max(columns["sent_ns"][k] + TRAVEL_NS, free[broker])
        columns["arrived_ns"][k] = begun
        columns["received_ns"][k] = free[broker] = begun + round(truth.service_s * factor * 1e9)
    return columns


def write_twin_run(
    results: Path,
    truths: Sequence[Truth],
    *,
    scenario: str = "twin",
    fidelity: str = "thesis",
    start: str = "20260501T000000Z",
    messages: int = 200,
    settings: dict[str, Any] | None = None,
) -> Path:
    """A folder as the experiment leaves it; `settings` are more parameters."""
    simulated = [
        Simulated(one.cell, np.zeros(messages), one.cell.interval_ms, 0, columns_of(one, at, messages), one.more)
        for at, one in enumerate(truths)
    ]
    ways = {
        "broker_of": lambda row: row % messages % truths[row // messages].cell.brokers + 1,
        "device_of": lambda _row: 1,
    }
    return simulate(
        results / f"{start}-{scenario}", "twin", simulated, figures=queues_and_rates, settings=ways,
        parameters={"scenario": scenario, "fidelity": fidelity, **(settings or {})}, fidelity=fidelity,
    )  # fmt: skip


CAUSES = [
    single(10, "prototype"),
    single(10, "sleep", service_s=0.055),
    single(10, "session", service_s=0.012),
    single(10, "row", service_s=0.002),
    single(10, "copy", service_s=0.0002),
]


def write_brokers(
    results: Path,
    central: float,
    distributed: float,
    *,
    rates: Rates = PUBLISHED_RATES,
    **more: Any,
) -> None:
    """Write a run of the second experiment whose service times have these relative SDs, by placement."""
    spread = {"single": central, "central": central, "distributed": distributed}
    write_twin_run(results, experiment_2(spread, rates), scenario="twin-brokers", **more)
