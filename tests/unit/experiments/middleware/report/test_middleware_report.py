"""The report on the middleware: verdicts on runs of known truth, a page that needs nothing else."""

import json
import re
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any, cast

import numpy as np
import pytest
from support.reports import Shown, shown
from support.run_files import repeat
from support.simulated_middleware_runs import CAPACITY, by_cores, nodes_cells, write_middleware_run

from looplab.errors import MachineError
from looplab.experiments.middleware import LoadCell
from looplab.experiments.middleware.document import Trial
from looplab.experiments.middleware.parameters import PARAMETERS
from looplab.experiments.middleware.report import CLIENT, PROCESSED
from looplab.experiments.middleware.report.claims import difference
from looplab.experiments.middleware.report.figures import sketches
from looplab.experiments.middleware.report.placements import best_loads, container_pairs, optima, places
from looplab.experiments.middleware.trial import Measurement
from looplab.report.statistics import over_runs
from looplab.report.verdicts import NOT_REPRODUCED, NOT_RUN, ONE_RUN, OTHER_SCALE, REPRODUCED, UNDECIDED, Verdict
from looplab.system.histogram import Histogram, merged

LOADS = (30, 60, 120)


def some(loads: tuple[int, ...] = LOADS, boxes: tuple[bool, ...] = (False, True)) -> list[LoadCell]:
    return [LoadCell.keyed(box, False, 1, cores, n) for box in boxes for cores in (1, 2) for n in loads]


def analysed(results: Path) -> Shown:
    return shown(results, "middleware")


def verdicts(results: Path) -> dict[str, Verdict]:
    repeat(results, 6)
    return {name: found["thesis"] for name, found in analysed(results).verdicts.items()}


def outcomes(results: Path) -> dict[str, str]:
    return {name: found.because or found.outcome for name, found in verdicts(results).items()}


def test_runs_like_the_published_ones_reproduce_every_finding(tmp_path: Path) -> None:
    write_middleware_run(tmp_path, cells=some())
    write_middleware_run(tmp_path, "middleware-nodes", cells=nodes_cells((60, 120, 150)), skew=0.7)
    found = outcomes(tmp_path)
    # Three small nodes fail at their optimal load, the last one; the balancer changes nothing; no core has siblings.
    assert found.pop("errors-below-nodes") == NOT_REPRODUCED
    # Copies of one run repeat its chance.
    assert found.pop("balancer-errors") in (NOT_REPRODUCED, NOT_REPRODUCED)
    assert found.pop("hyper-threading") == NOT_RUN
    # As many nodes as two processors have hold twice the memory; published are five, and four times.
    assert found.pop("memory-by-nodes") == OTHER_SCALE
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


@pytest.mark.parametrize(("share", "outcome"), [(1.0, NOT_REPRODUCED), (1.11, REPRODUCED)])
def test_what_siblings_add_is_found(tmp_path: Path, share: float, outcome: str) -> None:
    def smt(cell: LoadCell) -> float:
        return CAPACITY * (share if cell.cores == 2 else 1)

    truth = {"capacity": smt, "processors": 2, "siblings": [[0, 1]]}
    write_middleware_run(tmp_path, cells=some((60, 80, 120), boxes=(True,)), **truth)
    assert outcomes(tmp_path)["hyper-threading"] == outcome


def test_a_machine_without_siblings_cannot_show_them(tmp_path: Path) -> None:
    write_middleware_run(tmp_path, cells=some(boxes=(True,)), processors=2, siblings=[])
    assert "cannot show" in verdicts(tmp_path)["hyper-threading"].reason
    other = tmp_path / "other"
    write_middleware_run(other, cells=some(boxes=(True,)), processors=4, siblings=[[0, 1], [2, 3]])
    assert "are not of as many cores" in verdicts(other)["hyper-threading"].reason


@pytest.mark.parametrize("worse", ["nodes", "direct"])
def test_errors_beyond_the_optimum_are_compared(tmp_path: Path, worse: str) -> None:
    def weaker(cell: LoadCell) -> float:
        weak = cell.nodes == 2 if worse == "nodes" else not cell.balancer
        return CAPACITY * (1.4 if weak else 2)

    write_middleware_run(tmp_path, "middleware-nodes", cells=nodes_cells((60, 120, 150, 180)), capacity=weaker)
    found = outcomes(tmp_path)
    expected = {"errors-beyond": NOT_REPRODUCED} if worse == "nodes" else {"balancer-errors": REPRODUCED}
    assert expected.items() <= found.items()


def test_memory_that_does_not_grow_and_even_times_are_seen(tmp_path: Path) -> None:
    def even(made: list[Trial]) -> list[Trial]:
        alike = Histogram()
        alike.add(1000)
        return [
            replace(
                t,
                memory_end_bytes=t.memory_start_bytes,
                histograms={**t.histograms, "sent_response": merged([alike] * t.counts["succeeded"])},
            )
            for t in made
        ]

    write_middleware_run(tmp_path, "middleware-nodes", cells=nodes_cells((60, 120)), trials=even)
    found = outcomes(tmp_path)
    assert found["memory-grows"] == found["mean-above-median"] == NOT_REPRODUCED


def test_thesis_figures_leave_the_best_and_the_worst_out(tmp_path: Path) -> None:
    def spread(made: list[Trial]) -> list[Trial]:
        return [replace(t, processed=[100, 1, 110, 120, 900, 130, 140][t.repetition]) for t in made]

    write_middleware_run(tmp_path, cells=some((60,), boxes=(True,)), trials=spread, repetitions=7)
    run = analysed(tmp_path)
    cell: Any = run.measured[0].cells[1, 0, 1, 1, 60]
    assert [one.processed for one in cell.kept(PROCESSED, True)] == [100, 110, 120, 130, 140]
    assert [one.processed for one in cell.kept(PROCESSED, False)] == [1, 100, 110, 120, 130, 140, 900]
    assert cell.quartiles(True) == [55, 60, 65]
    plots = {plot.figure: plot for plot in sketches({"middleware": run.measured[0]})}
    assert "60 at 60" in plots["3"].alternative
    assert "left out" in plots["3"].caption
    assert "left out" in plots["5"].caption


def test_the_optimal_load_is_found_with_its_interval(tmp_path: Path) -> None:
    # One core processes 120 requests a second, a device posts two: 60 devices; two cores: 120.
    write_middleware_run(tmp_path, cells=some((30, 60, 90, 120)))
    for best in optima(analysed(tmp_path).measured[0]):
        cores = best.place[3]
        assert best.devices.estimate == 60 * cores
        assert best.devices.low <= best.devices.estimate <= best.devices.high
        assert best.processed == pytest.approx(CAPACITY * cores, rel=0.02)
        assert best.remark.startswith("the highest load was the best" if cores == 2 else "")


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


def test_a_container_that_only_takes_longer_is_seen(tmp_path: Path) -> None:
    slow = {"slower": lambda cell: 1.5 if cell.container else 1.0}
    write_middleware_run(tmp_path, cells=some((30, 60)), **slow)
    found = outcomes(tmp_path)
    assert (found["container-processed"], found["container-time"]) == (REPRODUCED, NOT_REPRODUCED)


def test_cores_that_do_not_help_and_a_balancer_that_costs(tmp_path: Path) -> None:
    write_middleware_run(tmp_path, cells=some(boxes=(True,)), capacity=lambda _cell: CAPACITY)

    def slow_balancer(cell: LoadCell) -> float:
        return by_cores(cell) * (0.7 if cell.balancer and cell.nodes == 1 else 1.0)

    write_middleware_run(
        tmp_path, "middleware-nodes", cells=nodes_cells((60, 120)), capacity=slow_balancer, start="20260302T000000Z"
    )
    found = outcomes(tmp_path)
    assert found["cores-move-optimum"] == NOT_REPRODUCED
    assert found["balancer-free"] == NOT_REPRODUCED
    # Nothing ran on bare metal.
    assert found["container-processed"] == found["container-time"] == NOT_RUN


@pytest.mark.parametrize(("load", "decided"), [(30, UNDECIDED), (150, REPRODUCED)])
def test_one_load_decides_about_what_it_overloads_alone(tmp_path: Path, load: int, decided: str) -> None:
    write_middleware_run(tmp_path, cells=some((load,)))
    write_middleware_run(tmp_path, "middleware-nodes", cells=nodes_cells((load,)), start="20260302T000000Z")
    found = outcomes(tmp_path)
    assert found["cores-move-optimum"] == NOT_RUN
    assert found["container-processed"] == found["balancer-free"] == found["more-nodes"] == decided
    assert found["errors-below"] == (REPRODUCED if load == 30 else NOT_REPRODUCED)


def test_errors_below_the_optimal_load_are_seen(tmp_path: Path) -> None:
    def failing(made: list[Trial]) -> list[Trial]:
        return [moved(t, 15, "unfinished") if t.loaded[-1].unfinished > 15 else t for t in made]

    def early(made: list[Trial]) -> list[Trial]:
        return [moved(t, 15) if t.cell.devices == 30 and t.cell.cores == 1 else t for t in made]

    write_middleware_run(tmp_path / "late", cells=some((30, 60)), trials=failing)
    write_middleware_run(tmp_path / "early", cells=some((30, 60)), trials=early)
    assert outcomes(tmp_path / "late")["errors-below"] == REPRODUCED
    assert outcomes(tmp_path / "early")["errors-below"] == NOT_REPRODUCED


def moved(trial: Trial, count: int, fate: str = "succeeded") -> Trial:
    """The same repetition, but so many requests of that fate failed instead."""
    last, response = trial.loaded[-1], trial.histograms["response"]
    loaded = [*trial.loaded[:-1], replace(last, **{fate: getattr(last, fate) - count, "failed": last.failed + count})]
    if fate == "succeeded":
        response = Histogram(response.counts)
        response.counts.subtract(sorted(response.counts.elements())[:count])
    return replace(trial, loaded=loaded, histograms={**trial.histograms, "response": response})


def test_out_of_memory_is_a_result_and_a_dead_service_is_named(tmp_path: Path) -> None:
    def exhausted(made: list[Trial]) -> list[Trial]:
        return [replace(t, out_of_memory=True, dead=["things"]) if t.cell.nodes == 3 else t for t in made]

    write_middleware_run(tmp_path, "middleware-nodes", cells=nodes_cells((60, 150)), trials=exhausted)
    run = analysed(tmp_path)
    assert run.verdict("five-beat-seven").because == NOT_RUN
    assert "Out of memory: 3 nodes x 1 core, balancer" in run.verdict("five-beat-seven").reason
    assert outcomes(tmp_path)["more-nodes"] == REPRODUCED
    assert run.measured[0].run.valid
    assert "services that ended before their time: things" in run.text


@pytest.mark.parametrize("every", [False, True])
def test_a_middleware_without_the_memory_to_start_is_shown(tmp_path: Path, every: bool) -> None:
    p = PARAMETERS.read({"SCENARIO": "middleware-nodes", "LAYOUTS": "1x1", "DEVICES": "60,150", "LOAD_S": "2"})

    def starved(made: list[Trial]) -> list[Trial]:
        return [not_started(t) if every or t.cell.nodes == 3 else t for t in made]

    def not_started(held: Trial) -> Trial:
        own = Measurement(p, cast(Any, None), held.cell, held.repetition, "run", lambda _running: None)
        return own.not_started(MachineError("spicedb is not ready: it printed nothing"), starved=True)

    write_middleware_run(tmp_path, "middleware-nodes", cells=nodes_cells((60, 150)), trials=starved)
    run = analysed(tmp_path)
    assert not run.selection.unusable
    assert run.measured[0].run.valid
    assert "spicedb is not ready" in run.text
    assert outcomes(tmp_path)["more-nodes"] == (NOT_RUN if every else REPRODUCED)


def test_two_repetitions_decide_nothing(tmp_path: Path) -> None:
    write_middleware_run(tmp_path, cells=some((30, 60)), repetitions=2)
    run = analysed(tmp_path)
    assert run.verdict("container-processed").because == ONE_RUN
    assert "3 sound repetitions a side" in run.verdict("container-processed").reason
    assert run.verdict("errors-below").because == ONE_RUN
    assert not any(best.devices.known for best in optima(run.measured[0]))


def test_a_run_whose_sums_are_wrong_is_invalid(tmp_path: Path) -> None:
    def broken(made: list[Trial]) -> list[Trial]:
        made[0] = replace(made[0], processor_share=0.97)
        return made

    folder = write_middleware_run(tmp_path, cells=some((30, 60)), trials=broken)
    document = json.loads((folder / "run.json").read_text())
    assert not document["valid"]
    assert any("devices used 97%" in why for why in document["invalid_because"])
    run = analysed(tmp_path)
    assert sum(map(len, places(run.measured[0]).values())) == 7
    assert "INVALID" in run.verdict("errors-below").notes[0]


@pytest.mark.parametrize(
    ("name", "meaning"),
    [("samples.csv", "samples.csv and run.json disagree"), ("histograms.csv", "histograms.csv holds")],
)
def test_a_file_that_was_cut_short_is_told(tmp_path: Path, name: str, meaning: str) -> None:
    folder = write_middleware_run(tmp_path, cells=some((30, 60)), repetitions=1)
    lines = (folder / name).read_text().splitlines(keepends=True)
    (folder / name).write_text("".join(lines[: len(lines) // 2]))
    [problem] = analysed(tmp_path).selection.unusable
    assert problem.kind == "damaged"
    assert meaning in problem.meaning


def test_runs_alike_are_one_with_the_repetitions_of_all(tmp_path: Path) -> None:
    for day in (1, 2):
        write_middleware_run(tmp_path, cells=some((30, 60)), repetitions=2, start=f"2026030{day}T000000Z")
    [measured] = analysed(tmp_path).measured
    cell: Any = measured.cells[1, 0, 1, 2, 60]
    assert len(cell.every) == 4
    assert cell.requests == 4 * 240
    assert sum(one.histograms["response"].count for one in cell.every) == 4 * 240
    assert cell.interval(PROCESSED).known


def test_of_three_runs_each_counts_once_whatever_its_repetitions(tmp_path: Path) -> None:
    """A run that is 30 % faster than the others is one faster run, not four faster repetitions."""
    for day, speed in ((1, 1.0), (2, 1.3), (3, 1.0)):
        write_middleware_run(
            tmp_path, cells=some((120, 150)), repetitions=4, start=f"2026030{day}T000000Z",
            capacity=lambda cell, speed=speed: by_cores(cell) * speed,
        )  # fmt: skip
    [measured] = analysed(tmp_path).measured
    cell: Any = measured.cells[0, 0, 1, 1, 120]
    by_run = [[one.figure(PROCESSED) for one in cell.every if one.unit[0] == run] for run in measured.run_ids]
    means = [sum(held) / len(held) for held in by_run]
    assert [len(held) for held in by_run] == [4, 4, 4]
    assert cell.interval(PROCESSED) == over_runs(means)
    assert [len(best.by_round) for best in optima(measured)] == [3] * 4
    found = analysed(tmp_path).verdict("container-processed")
    assert found.tested.units == (3, 3)
