"""Verdicts on runs whose truth is known, and on runs that cannot be compared."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.reports import Shown, shown
from support.simulated_runs import MACHINE, nine_scenarios, simulated_cell, write_run

from looplab.report.verdicts import NO_RUN, NOT_REPRODUCED, REPRODUCED, UNDECIDED


def pair(results: Path, medians: dict[str, float], repetitions: int = 10, **changes: dict[str, Any]) -> Shown:
    """One run of each scenario of `medians` at 100, 50 and 20 ms."""
    rng = np.random.default_rng(4)
    for scenario, median in medians.items():
        cells = {(i, 0): simulated_cell(rng, repetitions, 50, median, 4290) for i in (100.0, 50.0, 20.0)}
        write_run(results, scenario, cells=cells, **changes.get(scenario, {}))
    return shown(results)


def test_runs_like_the_thesis_reproduce_every_claim(results: Path) -> None:
    nine_scenarios(results)
    analysis = shown(results)
    outcomes = {claim: verdicts["thesis"].outcome for claim, verdicts in analysis.verdicts.items()}
    # The one that is simulated without a difference: scenario 3 against scenario 2.
    assert outcomes.pop("no-arduino-slower-stress") in (NOT_REPRODUCED, UNDECIDED)
    assert set(outcomes.values()) == {REPRODUCED}, outcomes
    assert {verdicts["corrected"].outcome for verdicts in analysis.verdicts.values()} == {NO_RUN}
    assert analysis.verdict("stress").published_share == pytest.approx(0.437, abs=0.001)


@pytest.mark.parametrize(("factor", "outcome"), [(1.5, REPRODUCED), (0.7, NOT_REPRODUCED), (1.0, NOT_REPRODUCED)])
def test_stress_raises_o_only_where_it_does(results: Path, factor: float, outcome: str) -> None:
    analysis = pair(results, {"scenario1": 1000, "scenario2": 1000 * factor})
    assert analysis.verdict("stress").outcome == outcome


@pytest.mark.parametrize(("factor", "outcome"), [(1.0, REPRODUCED), (1.3, REPRODUCED), (0.5, NOT_REPRODUCED)])
def test_adds_nothing_is_a_question_of_its_own(results: Path, factor: float, outcome: str) -> None:
    analysis = pair(results, {"scenario4": 1000, "scenario5": 1000 * factor})
    assert analysis.verdict("client-priority").outcome == outcome


def test_a_small_sample_is_undecided_and_says_what_it_would_miss(results: Path) -> None:
    analysis = pair(results, {"scenario1": 1000, "scenario2": 1060}, repetitions=3)
    found = analysis.verdict("stress")
    assert found.outcome == UNDECIDED
    assert "standard deviations of a repetition" in found.reason


def test_one_repetition_decides_nothing(results: Path) -> None:
    analysis = pair(results, {"scenario1": 1000, "scenario2": 9000}, repetitions=1)
    found = analysis.verdict("stress")
    assert found.outcome == UNDECIDED
    assert "1 answered repetition(s)" in found.reason
    assert any("Too few repetitions" in note for note in analysis.context["notes"])


# What is odd about scenario 2: what its run has, the words in the reason, the words elsewhere on the page.
NOT_COMPARED = {
    "invalid": (
        {"changes": {"valid": False, "invalid_because": ["stress load: wanted running"]}},
        "INVALID (stress load: wanted running)",
        "Its figures are shown and prove nothing",
    ),
    "machine": (
        {"changes": {"environment": {**MACHINE, "cpu": "Another", "cores": 8}}},
        "different machines: Another, 8 cores",
        "These runs are of 2 machines",
    ),
    "factor": ({"parameters": {"tcp_nodelay": True}}, "the runs differ in TCP_NODELAY too", "not fidelity thesis"),
}


@pytest.mark.parametrize("how", NOT_COMPARED)
def test_runs_that_are_invalid_or_unlike_are_not_compared(results: Path, how: str) -> None:
    changes, reason, elsewhere = NOT_COMPARED[how]
    analysis = pair(results, {"scenario1": 1000, "scenario2": 9000}, scenario2=changes)
    found = analysis.verdict("stress")
    assert found.outcome == UNDECIDED
    assert reason in found.reason
    assert elsewhere in analysis.text


def test_different_fidelities_are_never_put_side_by_side_in_one_verdict(results: Path) -> None:
    analysis = pair(results, {"scenario1": 1000, "scenario2": 9000}, scenario2={"fidelity": "corrected"})
    assert analysis.verdict("stress", "thesis").outcome == NO_RUN
    assert analysis.verdict("stress", "corrected").outcome == NO_RUN


def test_no_common_cell(results: Path) -> None:
    rng = np.random.default_rng(5)
    write_run(results, "scenario1", cells={(100.0, 0): simulated_cell(rng, 5, 20, 1000, 4290)})
    write_run(results, "scenario2", cells={(20.0, 0): simulated_cell(rng, 5, 20, 1000, 4290)})
    found = shown(results).verdict("stress")
    assert found.outcome == UNDECIDED
    assert "no cell" in found.reason


@pytest.mark.parametrize(
    ("repetitions", "lost", "outcome"), [(10, 37, REPRODUCED), (10, 0, NOT_REPRODUCED), (2, 0, UNDECIDED)]
)
def test_loss_at_10_ms(results: Path, repetitions: int, lost: int, outcome: str) -> None:
    cells = {(10.0, 0): simulated_cell(np.random.default_rng(6), repetitions, 100, 900, 4290)}
    write_run(results, "scenario1", cells=cells, lost={(10.0, 0): lost})
    found = shown(results).verdict("loss-10-ms")
    assert found.outcome == outcome
    assert f"{lost} of {repetitions * 100} lost" in found.reason


def test_a_cell_where_nothing_was_answered_is_shown_and_named(results: Path) -> None:
    rng = np.random.default_rng(7)
    cells = {(20.0, 0): simulated_cell(rng, 5, 20, 900, 4290), (10.0, 0): simulated_cell(rng, 5, 20, 900, 4290)}
    write_run(results, "scenario1", cells=cells, lost={(10.0, 0): 100})
    analysis = shown(results)
    assert any("none of 100 messages was answered" in note for note in analysis.context["notes"])
    assert "100 of 100 lost" in analysis.verdict("loss-10-ms").reason
    silent = next(m for m in analysis.measured).cells[10.0, 0]
    assert silent.mean("O") is None


def test_permitted_priority_stands_beside_the_verdict(results: Path) -> None:
    nine_scenarios(results)
    beside = " ".join(shown(results).verdict("broker-priority").beside)
    assert "SCHED_OTHER" in beside
    assert "not priority" in beside


def test_tcp_nodelay_stands_beside_qos_2(results: Path) -> None:
    nine_scenarios(results)
    for folder in nine_scenarios(results / "corrected", fidelity="corrected", seed=2):
        folder.rename(results / folder.name.replace("000000Z", "000001Z"))
    (results / "corrected").rmdir()
    analysis = shown(results)
    assert not analysis.selection.unusable
    beside = " ".join(analysis.verdict("qos-2", "corrected").beside)
    assert "TCP_NODELAY off" in beside
    assert "90% of it was Nagle" in beside
    assert "SCHED_FIFO 90" in " ".join(analysis.verdict("broker-priority", "corrected").beside)


def test_a_scenario_of_ones_own_is_in_the_report(results: Path) -> None:
    cells = {(20.0, 0): simulated_cell(np.random.default_rng(8), 5, 20, 900, 4290)}
    write_run(results, "my-scenario", cells=cells)
    analysis = shown(results)
    tables = dict(analysis.context["tables"])
    assert tables["my-scenario"]["thesis"].number == ""
    assert tables["my-scenario"]["thesis"].rows[0].mean is not None
