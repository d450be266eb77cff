"""Runs of twin made of a known service time, in the very files that the experiment writes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from looplab.experiments.twin import TwinCell
from looplab.experiments.twin.document import files, queues_and_rates
from looplab.run.cells import CellResult, entry
from looplab.run.samples import ANSWERED, FAILED, WAITING, SampleStore
from support.run_files import asked, finish, treatment

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
    faults: list[str] = field(default_factory=list)


def single(interval_ms: float, mode: str = "prototype", qos: int = 1, repetition: int = 0, **more: Any) -> Truth:
    """Return the truth of a cell of one broker."""
    return Truth(TwinCell.keyed(interval_ms, 1, "single", mode, qos, repetition), **more)


def experiment_1(messages_faster: bool = False) -> list[Truth]:
    """Return the published intervals with the published rate; or one that keeps up everywhere."""
    service_s = 0.002 if messages_faster else PUBLISHED_S
    return [single(ms, service_s=service_s) for ms in (100, 80, 67, 50, 40, 20, 10)]


def experiment_2(spread: dict[str, float], rates: dict[tuple[int, str], float], iterations: int = 5) -> list[Truth]:
    """Return brokers with these rates each, whose service times have a relative SD of `spread` by placement."""
    rng = np.random.default_rng(11)
    return [
        Truth(
            TwinCell.keyed(10, brokers, placement, "prototype", 1, iteration),
            1 / rate,
            tuple(1 + spread[placement] * rng.standard_normal(brokers)),
        )
        for iteration in range(iterations)
        for (brokers, placement), rate in rates.items()
    ]


def fill(store: SampleStore, rows: range, truth: Truth) -> None:
    """Send message k at k intervals through broker k mod brokers; each broker's are stored one after the other."""
    cell, interval_ns = truth.cell, round(truth.cell.interval_ms * 1e6)
    # Cells follow each other, far enough apart.
    start = 10**12 + rows.start * 10**9
    free = [0] * cell.brokers
    last = len(rows) - truth.lost - truth.refused
    for k, row in enumerate(rows):
        broker = k % cell.brokers
        store["due_ns"][row] = start + k * interval_ns
        sent = store["sent_ns"][row] = store["due_ns"][row] + 20_000
        store["copies"][row] = 1 if k < truth.copies else 0
        if k >= last:
            store["state"][row] = WAITING if k >= last + truth.refused else FAILED
            continue
        factor = truth.factors[broker] if truth.factors else 1.0
        begun = max(sent + TRAVEL_NS, free[broker])
        store["arrived_ns"][row] = begun
        store["received_ns"][row] = free[broker] = begun + round(truth.service_s * factor * 1e9)
        store["state"][row] = ANSWERED


def parameters(truths: Sequence[Truth], messages: int, **more: Any) -> Any:
    """Return what document.py asks of the parameters of a run."""
    cells = [truth.cell for truth in truths]
    return asked(
        cells,
        messages,
        broker_of=lambda row: row % messages % cells[row // messages].brokers + 1,
        device_of=lambda _row: 1,
        **more,
    )


def write_twin_run(
    results: Path,
    truths: Sequence[Truth],
    *,
    scenario: str = "twin",
    fidelity: str = "thesis",
    start: str = "20260501T000000Z",
    messages: int = 200,
    settings: dict[str, Any] | None = None,
    changes: dict[str, Any] | None = None,
) -> Path:
    """A folder as the experiment leaves it; `settings` are more parameters."""
    store = SampleStore(len(truths) * messages, more=("copies",))
    p = parameters(truths, messages)
    for at, truth in enumerate(truths):
        fill(store, p.rows(at), truth)
    cells = []
    for at, truth in enumerate(truths):
        rows = p.rows(at)
        more = {**queues_and_rates(p, store, rows, truth.cell), **truth.more}
        cells.append(entry(CellResult(truth.cell, more, truth.faults), store, rows))
    (file,) = files(p)
    lines = [file.header, *file.lines(store, range(len(truths) * messages))]
    return finish(
        results / f"{start}-{scenario}", "twin", cells,
        {"scenario": scenario, "fidelity": fidelity, "messages": messages, **(settings or {})}, {"samples.csv": lines},
        **{"fidelity": fidelity, "treatments": [treatment("instance", "one process")], **(changes or {})},
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
    iterations: int = 5,
    **more: Any,
) -> None:
    """Write a run of the second experiment whose service times have these relative SDs, by placement."""
    spread = {"single": central, "central": central, "distributed": distributed}
    write_twin_run(results, experiment_2(spread, rates, iterations), scenario="twin-brokers", **more)
