"""The report on the middleware: verdicts on runs of known truth, a page that needs nothing else."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, cast

import numpy as np
import pytest
from support.reports import shown
from support.run_files import repeat
from support.simulated_middleware_runs import CAPACITY, by_cores, nodes_cells, write_middleware_run

from looplab.errors import MachineError
from looplab.experiments.middleware import LoadCell
from looplab.experiments.middleware.document import Trial
from looplab.experiments.middleware.parameters import PARAMETERS
from looplab.experiments.middleware.report import CLIENT, PROCESSED
from looplab.experiments.middleware.report.claims import difference
from looplab.experiments.middleware.report.figures import quartiles, sketches
from looplab.experiments.middleware.report.placements import best_loads, container_pairs, optima, places
from looplab.experiments.middleware.trial import Measurement
from looplab.report.drawing import PlotPoint
from looplab.report.verdicts import NOT_REPRODUCED, NOT_RUN, REPRODUCED, UNDECIDED
from looplab.system.histogram import Histogram

LOADS = (30, 60, 120)


def some(loads: tuple[int, ...] = LOADS, boxes: tuple[bool, ...] = (False, True)) -> list[LoadCell]:
    return [LoadCell.keyed(box, False, 1, cores, n) for box in boxes for cores in (1, 2) for n in loads]


analysed = partial(shown, experiment="middleware")


def outcomes(results: Path) -> dict[str, str]:
    repeat(results, 6)
    verdicts = {name: found["thesis"] for name, found in analysed(results).verdicts.items()}
    return {name: found.because or found.outcome for name, found in verdicts.items()}


def test_runs_like_the_published_ones_reproduce_every_finding(tmp_path: Path) -> None:
    write_middleware_run(tmp_path, cells=some())
    write_middleware_run(tmp_path, "middleware-nodes", cells=nodes_cells((60, 120, 150)))
    found = outcomes(tmp_path)
    # Three small nodes fail at their optimal load, the last one; the balancer changes nothing; no core has siblings.
    assert found.pop("errors-below-nodes") == NOT_REPRODUCED
    # Copies of one run repeat its chance.
    assert found.pop("balancer-errors") == NOT_REPRODUCED
    assert found.pop("hyper-threading") == NOT_RUN
    assert found == dict.fromkeys(found, REPRODUCED)


def test_a_round_does_not_choose_the_load_that_it_compares_at(tmp_path: Path) -> None:
    # Both placements and all loads differ by chance alone: a round that may choose takes its own lucky load.
    rng, figures = np.random.default_rng(4), iter(range(10**6))

    def noisy(made: list[Trial]) -> list[Trial]:
        return [replace(t, processed=round(rng.normal(400, 60) + next(figures) % 2)) for t in made]

    write_middleware_run(tmp_path, "middleware-nodes", cells=nodes_cells((60, 70, 80)), trials=noisy, repetitions=8)
    [run] = analysed(tmp_path).measured
    cells = places(run)[True, True, 1, 2]
    chosen = best_loads(cells)
    assert len(chosen) == 8
    for at, unit in enumerate(sorted(chosen)):
        others = sorted(chosen)[(at + 1) % 2 :: 2]
        means = {cell.devices: fmean(cell.by_unit(PROCESSED)[other] for other in others) for cell in cells}
        assert chosen[unit] == max(means, key=lambda load: means[load])
        # Whatever a round has itself changes the choice of the other half alone.
        for one in (one for cell in cells for one in cell.every if one.unit == unit):
            one.document = {**one.document, "processed": 10**6 * cells[0].devices}
        assert best_loads(cells)[unit] == chosen[unit]


def weaker(weak: Callable[[LoadCell], bool], share: float = 0.7) -> Callable[[LoadCell], float]:
    """Return capacities as published, of some cells less."""
    return lambda cell: by_cores(cell) * (share if weak(cell) else 1)


def moved(trial: Trial, count: int, fate: str = "succeeded") -> Trial:
    """The same repetition, but so many requests of that fate failed instead."""
    last, response = trial.loaded[-1], trial.histograms["response"]
    good = last.succeeded - count * (fate == "succeeded")
    loaded = [*trial.loaded[:-1], replace(last, succeeded=good, failed=last.failed + count)]
    if fate == "succeeded":
        response = Histogram(response.counts)
        response.counts.subtract(sorted(response.counts.elements())[:count])
    return replace(trial, loaded=loaded, histograms={**trial.histograms, "response": response})


def failing(made: list[Trial]) -> list[Trial]:
    """Beyond the optimal load more requests fail than 2 %."""
    return [moved(t, 15, "unfinished") if t.loaded[-1].unfinished > 15 else t for t in made]


def failing_early(made: list[Trial]) -> list[Trial]:
    return [moved(t, 15) if t.cell.devices == 30 and t.cell.cores == 1 else t for t in made]


CORES, NODES = "middleware", "middleware-nodes"
BOXED = {"boxes": (True,)}
SMT = {"cells": some((60, 80, 120), **BOXED), "processors": 2, "siblings": [[0, 1]]}
BEYOND = {"cells": nodes_cells((60, 120, 150, 180))}


@pytest.mark.parametrize(
    ("scenario", "truth", "expected"),
    [
        (CORES, {**SMT, "capacity": lambda _cell: CAPACITY}, {"hyper-threading": NOT_REPRODUCED}),
        (CORES, {**SMT, "capacity": lambda cell: CAPACITY * (1.11 if cell.cores == 2 else 1)},
         {"hyper-threading": REPRODUCED}),
        # Two of four processors are of one core.
        (CORES, {**SMT, "processors": 4, "siblings": [[0, 1], [2, 3]]}, {"hyper-threading": NOT_RUN}),
        (NODES, {**BEYOND, "capacity": weaker(lambda cell: cell.nodes == 2)}, {"errors-beyond": NOT_REPRODUCED}),
        (NODES, {**BEYOND, "capacity": weaker(lambda cell: not cell.balancer)}, {"balancer-errors": REPRODUCED}),
        (CORES, {"cells": some((30, 60)), "slower": lambda cell: 1.5 if cell.container else 1.0},
         {"container-processed": REPRODUCED, "container-time": NOT_REPRODUCED}),
        (CORES, {"cells": some((30, 60)), "trials": failing}, {"errors-below": REPRODUCED}),
        (CORES, {"cells": some((30, 60)), "trials": failing_early}, {"errors-below": NOT_REPRODUCED}),
        # Nothing ran on bare metal.
        (CORES, {"cells": some(**BOXED), "capacity": lambda _cell: CAPACITY},
         {"cores-move-optimum": NOT_REPRODUCED, "container-processed": NOT_RUN, "container-time": NOT_RUN}),
        (NODES, {"cells": nodes_cells((60, 120)), "capacity": weaker(lambda cell: cell.balancer and cell.nodes == 1)},
         {"balancer-free": NOT_REPRODUCED}),
        # One load decides about what it overloads alone.
        (CORES, {"cells": some((30,))},
         {"cores-move-optimum": NOT_RUN, "container-processed": UNDECIDED, "errors-below": REPRODUCED}),
        (CORES, {"cells": some((150,))}, {"container-processed": REPRODUCED, "errors-below": NOT_REPRODUCED}),
        (NODES, {"cells": nodes_cells((30,))}, {"balancer-free": UNDECIDED, "more-nodes": UNDECIDED}),
        (NODES, {"cells": nodes_cells((150,))}, {"balancer-free": REPRODUCED, "more-nodes": REPRODUCED}),
    ],
)  # fmt: skip
def test_what_was_put_in_is_found(
    tmp_path: Path, scenario: str, truth: dict[str, Any], expected: dict[str, str]
) -> None:
    write_middleware_run(tmp_path, scenario, **truth)
    found = outcomes(tmp_path)
    assert {name: found[name] for name in expected} == expected


def test_figures_draw_medians_with_quartiles(tmp_path: Path) -> None:
    def spread(made: list[Trial]) -> list[Trial]:
        return [replace(t, processed=[100, 110, 120, 130, 140][t.repetition]) for t in made]

    write_middleware_run(tmp_path, cells=some((60,), boxes=(True,)), trials=spread, repetitions=5)
    [measured] = analysed(tmp_path).measured
    assert quartiles(cast(Any, measured.cells[1, 0, 1, 1, 60])) == PlotPoint(60, 60, 5, 5)
    plots = {plot.figure: plot for plot in sketches({"middleware": measured})}
    assert "1 core, container: 60 at 60" in plots["3"].alternative


def test_the_optimal_load_is_found(tmp_path: Path) -> None:
    # One core processes 120 requests a second, a device posts two: 60 devices; two cores: 120.
    write_middleware_run(tmp_path, cells=some((30, 60, 90, 120)))
    for best in optima(analysed(tmp_path).measured[0]):
        cores = best.place[3]
        assert best.load == 60 * cores
        assert set(best.by_round) <= {60 * cores, 60 * cores - 30}
        assert best.processed == pytest.approx(CAPACITY * cores, rel=0.02)


@pytest.mark.parametrize("cost", [0.05, 0.25])
def test_the_cost_of_a_container_is_found(tmp_path: Path, cost: float) -> None:
    write_middleware_run(
        tmp_path,
        cells=[LoadCell.keyed(box, False, 1, 1, n) for box in (False, True) for n in (60, 90)],
        capacity=lambda cell: by_cores(cell) * (1 - cost * cell.container),
        slower=lambda cell: 1 + cost * cell.container,
    )
    run = analysed(tmp_path)
    pairs = container_pairs(run.measured[0])
    bare = next(pair for pair in pairs if pair[0].devices == 60)
    # Of 120 requests offered, a container with less capacity sheds more than it lacks.
    lost = difference(bare, PROCESSED)
    assert lost.low < cost * 1.3 < lost.high or lost.estimate == pytest.approx(cost * 1.3, abs=0.02)
    slowed = difference(bare, CLIENT)
    assert slowed.estimate < -cost / 2
    outcome = REPRODUCED if cost < 0.1 else NOT_REPRODUCED
    assert outcomes(tmp_path)["container-processed"] == outcome
    assert re.search(rf"changes by \+{100 * cost:.1f}%", run.verdict("container-processed").notes[0])


def not_started(held: Trial) -> Trial:
    p = PARAMETERS.read({"SCENARIO": "middleware-nodes", "LAYOUTS": "1x1", "DEVICES": "60,150", "LOAD_S": "2"})
    trial = Trial(cell=held.cell, repetition=held.repetition)
    own = Measurement(p, cast(Any, None), trial, "run", lambda _running: None)
    return own.not_started(MachineError("spicedb is not ready: it printed nothing"), starved=True)


@pytest.mark.parametrize(
    ("starved", "named"),
    [
        (lambda held: replace(held, out_of_memory=True, dead=["things"]), "ended before their time: things"),
        (not_started, "spicedb is not ready"),
    ],
)
def test_out_of_memory_is_a_result_and_a_dead_service_is_named(
    tmp_path: Path, starved: Callable[[Trial], Trial], named: str
) -> None:
    trials = {"trials": lambda made: [starved(t) if t.cell.nodes == 3 else t for t in made]}
    write_middleware_run(tmp_path, NODES, cells=nodes_cells((60, 150)), **trials)
    run = analysed(tmp_path)
    assert run.verdict("five-beat-seven").because == NOT_RUN
    assert "Out of memory: 3 nodes x 1 core, balancer" in run.verdict("five-beat-seven").reason
    assert outcomes(tmp_path)["more-nodes"] == REPRODUCED
    assert run.measured[0].run.valid
    assert named in run.text
