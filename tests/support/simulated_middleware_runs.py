"""Runs of the middleware made of known numbers, in the very files that the experiment writes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from looplab.experiments.middleware import LoadCell
from looplab.experiments.middleware.document import READ_BACK, Second, Trial, contents, files, judge
from looplab.system.histogram import Histogram
from support.run_files import finish

LOADS = (30, 60, 90, 120, 150)
SECONDS = 2
RATE_PER_DEVICE = 2.0
# Requests a second that one core processes, and what a request takes inside when nothing waits.
CAPACITY, SERVER_MS = 120.0, 4.0
# SD of the logarithm of the time inside.
SKEW = 0.4
# What a server loses for each request that it is offered beyond its capacity: beyond the optimum it processes less.
THRASHING = 0.3

# Requests a second that a cell can process.
Capacity = Callable[[LoadCell], float]


def by_cores(cell: LoadCell) -> float:
    """As published: more cores process more, five small nodes more than one large one, seven less than five."""
    share = {1: 1.0, 2: 1.25, 3: 1.12}.get(cell.nodes, 1.0)
    return CAPACITY * min(2, cell.nodes * cell.cores) * share


def cores_cells(loads: Sequence[int] = LOADS) -> list[LoadCell]:
    return [LoadCell.keyed(box, False, 1, cores, n) for box in (False, True) for cores in (1, 2) for n in loads]


def nodes_cells(loads: Sequence[int] = LOADS) -> list[LoadCell]:
    layouts = ((False, 1, 2), (True, 1, 2), (True, 2, 1), (True, 3, 1))
    return [LoadCell.keyed(True, balancer, nodes, cores, n) for balancer, nodes, cores in layouts for n in loads]


def trial(
    cell: LoadCell,
    repetition: int,
    rng: np.random.Generator,
    capacity: Capacity,
    slower: float,
    **more: Any,
) -> Trial:
    """Return one repetition; `slower` multiplies the time inside the middleware."""
    own = float(rng.normal(1, 0.01))
    offered = cell.devices * RATE_PER_DEVICE
    most = capacity(cell) * own
    done = offered if offered <= most else max(0.2 * most, most - THRASHING * (offered - most))
    requests = round(offered * SECONDS)
    succeeded = min(requests, round(done * SECONDS))
    failed = (requests - succeeded) // 2
    load = min(offered / most, 0.98)
    server_ns = SERVER_MS * 1e6 * slower * own / (1 - load) * rng.lognormal(0, SKEW, succeeded)
    sent_ns = server_ns + 1e6
    late_ns = rng.exponential(2e5, requests)
    seconds = [Second(*split) for split in _split(requests, succeeded, failed)]
    under_test = ("http", "auth")
    return Trial(
        cell=cell,
        repetition=repetition,
        processed=succeeded,
        failed_by={"timeout": failed} if failed else {},
        histograms={
            "response": counted(sent_ns + late_ns[:succeeded]),
            "sent_response": counted(sent_ns),
            "server": counted(server_ns),
            "send_lateness": counted(late_ns),
        },
        read_back=dict(zip(READ_BACK, (succeeded, succeeded - 1, 1, 0), strict=True)),
        under_test=under_test,
        cpu_s={"http": 0.001 * succeeded * slower, "auth": 0.0005 * succeeded * slower, "devices": 2.0},
        memory_start_bytes=dict.fromkeys(under_test, 50 * 2**20 * cell.nodes),
        memory_end_bytes=dict.fromkeys(under_test, 60 * 2**20 * cell.nodes),
        processor_share=0.5,
        warm_up=[Second(10, 10, cpu_us=40_000 - 5000 * at) for at in range(6)],
        loaded=seconds,
        **more,
    )


def counted(values_ns: np.ndarray) -> Histogram:
    found = Histogram()
    for value_ns in values_ns.tolist():
        found.add(round(value_ns))
    return found


def _split(*counts: int) -> Iterator[list[int]]:
    """Yield what each second counted: due, succeeded, failed."""
    for at in range(SECONDS):
        yield [count * (at + 1) // SECONDS - count * at // SECONDS for count in counts]


def write_middleware_run(
    results: Path,
    scenario: str = "middleware",
    *,
    start: str = "20260301T000000Z",
    cells: Sequence[LoadCell] = (),
    capacity: Capacity = by_cores,
    slower: Callable[[LoadCell], float] = lambda _cell: 1.0,
    repetitions: int = 4,
    trials: Callable[[list[Trial]], list[Trial]] = lambda made: made,
    changes: dict[str, Any] | None = None,
    **parameters: Any,
) -> Path:
    """A folder as the experiment leaves it; `trials` may change what each repetition measured."""
    rng = np.random.default_rng(11)
    cells = cells or (cores_cells() if scenario == "middleware" else nodes_cells())
    made = trials([trial(cell, at, rng, capacity, slower(cell)) for at in range(repetitions) for cell in cells])
    written = {file.name: [file.header, *file.lines({}, range(len(made)))] for file in files(None, made)}
    wrong = [why for one in made for why in one.reasons()]
    return finish(
        results / f"{start}-{scenario}", "middleware", [],
        {"repetitions": repetitions, "messages": SECONDS, "system": "magistrala", **parameters}, written,
        **{
            "valid": not wrong, "invalid_because": wrong, **contents(made, []),
            "treatments": list(map(asdict, judge(made))), **(changes or {}),
        },
    )  # fmt: skip
