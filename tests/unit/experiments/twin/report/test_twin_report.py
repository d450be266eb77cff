"""The report on twin: verdicts on runs of known truth."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support import simulated_twin_runs as twin
from support.reports import shown
from support.run_files import repeat

from looplab.experiments.twin.host import variables
from looplab.report.verdicts import NO_CONTRAST, NOT_REPRODUCED, NOT_RUN, REPRODUCED, UNDECIDED, Verdict

NEITHER = dict.fromkeys(("no-queue-above-67", "fifteen"), NOT_REPRODUCED)
MODES = ("prototype", "sleep", "session", "row", "copy")


analysed = partial(shown, experiment="twin")


def findings(results: Path, fidelity: str = "thesis") -> dict[str, Verdict]:
    repeat(results)
    found = {name: held[fidelity] for name, held in analysed(results).verdicts.items()}
    return {name: one for name, one in found.items() if isinstance(one, Verdict)}


def test_a_run_like_the_published_one_reproduces_experiment_1(tmp_path: Path) -> None:
    twin.write_twin_run(tmp_path, twin.experiment_1(), messages=300)
    found = findings(tmp_path)
    assert found["fifteen"].outcome == found["no-queue-above-67"].outcome == REPRODUCED
    (line,) = found["fifteen"].lines
    assert line.value.estimate == pytest.approx(14.85, rel=0.001)
    # 50, 40, 20 and 10 ms have a queue, each with the same rate out.
    assert line.value.known
    assert found["broker-is-the-limit"].because == found["more-brokers"].because == NOT_RUN


def repeated(*truths: twin.Truth, count: int = 4) -> list[twin.Truth]:
    """Return each truth several times, 0.1 % slower each time."""
    return [
        twin.single(one.cell.interval_ms, qos=one.cell.qos, repetition=at, service_s=one.service_s * (1 + at / 1000))
        for one in truths
        for at in range(count)
    ]


@pytest.mark.parametrize(
    ("truths", "expected"),
    [
        ([twin.single(10, service_s=0.03), twin.single(50, service_s=0.03)], {"fifteen": NOT_REPRODUCED}),
        ([twin.single(100, service_s=0.002), twin.single(80, service_s=0.002)], {"fifteen": UNDECIDED}),
        ([twin.single(ms, service_s=0.2) for ms in (100, 80, 50, 10)], NEITHER),
        ([twin.single(ms, service_s=0.002) for ms in (100, 67, 10)], NEITHER),
        ([twin.single(10, mode) for mode in MODES], {"broker-is-the-limit": REPRODUCED}),
        (repeated(*(twin.single(10, qos=qos) for qos in (0, 1, 2))), {"qos-low-impact": REPRODUCED}),
        (
            repeated(twin.single(10), twin.single(10, qos=2, service_s=2 * twin.PUBLISHED_S), twin.single(10, qos=0)),
            {"qos-low-impact": NOT_REPRODUCED},
        ),
    ],
)
def test_what_a_broker_does_is_judged(tmp_path: Path, truths: list[twin.Truth], expected: dict[str, str]) -> None:
    twin.write_twin_run(tmp_path, truths)
    found = findings(tmp_path)
    assert {name: found[name].outcome for name in expected} == expected


def test_a_run_with_another_factor_displaces_none(tmp_path: Path) -> None:
    """WRITE_MODE=copy of fidelity thesis made "at most 15 messages a second" not reproduced."""
    settings = {"write_modes": ["copy"]}
    twin.write_twin_run(tmp_path, [twin.single(ms, "copy", service_s=0.001) for ms in (100, 10)], settings=settings)
    assert {held["thesis"].because for held in analysed(tmp_path).verdicts.values()} == {NOT_RUN}
    twin.write_twin_run(tmp_path, twin.experiment_1(), messages=300, start="20260401T000000Z")
    assert findings(tmp_path)["fifteen"].outcome == REPRODUCED, "the run as usual decides, though it is older"


def test_the_mode_of_its_fidelity_answers_for_a_run(tmp_path: Path) -> None:
    """The prototype is no part of what `corrected` shows of the paper's figures."""
    twin.write_twin_run(tmp_path, twin.CAUSES, fidelity="corrected", settings={"write_modes": ["prototype", "row"]})
    assert "row" in findings(tmp_path, "corrected")["fifteen"].reason


def test_the_impact_of_persistence_needs_a_run_with_it(tmp_path: Path) -> None:
    twin.write_twin_run(tmp_path, repeated(twin.single(10)), start="20260501T000000Z")
    assert findings(tmp_path)["persistence-low-impact"].because == NOT_RUN
    twin.write_twin_run(tmp_path, repeated(twin.single(10)), start="20260502T000000Z", settings={"persistence": True})
    assert findings(tmp_path)["persistence-low-impact"].outcome == REPRODUCED


def test_each_cause_taken_away_is_named_with_its_rate(tmp_path: Path) -> None:
    twin.write_twin_run(tmp_path, twin.CAUSES, settings={"write_modes": [*MODES]})
    found = findings(tmp_path)
    rates = {line.what: line.value.estimate for line in found["fifteen"].lines}
    assert list(rates.values()) == pytest.approx([14.85, 1 / 0.055, 1 / 0.012, 100, 100], rel=0.01)
    assert sum("no queue yet" in what for what in rates) == 2
    assert found["broker-is-the-limit"].outcome == NOT_REPRODUCED
    assert "6.7 times as many" in found["broker-is-the-limit"].reason


@pytest.mark.parametrize(
    ("more", "claim", "outcome"),
    [
        ({}, "totals-alike", REPRODUCED),
        (
            {"rates": {**twin.PUBLISHED_RATES, (2, "distributed"): 20.0, (4, "distributed"): 20.0}},
            "totals-alike", NOT_REPRODUCED,
        ),
        ({}, "more-brokers", REPRODUCED),
        # They do not hinder one another.
        ({"rates": dict.fromkeys(twin.PUBLISHED_RATES, 14.85)}, "more-brokers", NOT_REPRODUCED),
        ({"distributed": 0.1}, "distributed-varies", REPRODUCED),
    ],
)  # fmt: skip
def test_what_several_brokers_do_is_judged(tmp_path: Path, more: dict[str, Any], claim: str, outcome: str) -> None:
    twin.write_brokers(tmp_path, **{"central": 0.005, "distributed": 0.005, **more})
    found = findings(tmp_path)[claim]
    assert found.outcome == outcome, found.reason


def test_the_published_figures_of_brokers_stand_beside(tmp_path: Path) -> None:
    twin.write_brokers(tmp_path, 0.02, 0.02)
    found = analysed(tmp_path)
    lines = {line.what: line for line in found.verdict("more-brokers").lines}
    assert lines["4 brokers, central: total"].published == "48.08"
    assert lines["4 brokers, central: total"].value.estimate == pytest.approx(4 * 12.02, rel=0.05)
    assert lines["2 brokers, distributed: each"].value.estimate == pytest.approx(13.50, rel=0.05)
    assert any(line.published == "14.36" for line in found.verdict("distributed-varies").lines)


@pytest.mark.parametrize(("scale", "because"), [(1.0, ""), (0.5, NO_CONTRAST)])
def test_machines_that_share_a_processor_are_no_contrast(tmp_path: Path, scale: float, because: str) -> None:
    """Of two processors both placements of two brokers have processor 0: twin.host gives '0' to each."""
    sets = variables({"SCENARIO": "twin-brokers"}, [0, 1])
    assert {sets[f"TWIN_CPUSET_{name}"] for name in ("BROKER_1", "BROKER_2", "2")} == {"0"}
    twin.write_brokers(tmp_path, 0.005, 0.1, settings={"machine_scale": scale})
    found = findings(tmp_path)
    assert {found[name].because for name in ("totals-alike", "distributed-varies")} == {because}
    assert found["distributed-varies"].lines
    assert found["more-brokers"].because == ""


def test_of_three_runs_variances_are_compared_run_by_run(tmp_path: Path) -> None:
    """Whose ratio is 100 in one run and 1 in two has no ratio."""
    for day, spread in ((1, 0.1), (2, 0.01), (3, 0.01)):
        twin.write_brokers(tmp_path, 0.01, spread, start=f"2026050{day}T000000Z")
    found = findings(tmp_path)["distributed-varies"]
    assert found.outcome == UNDECIDED
    ratios = [line.value for line in found.lines if "over central" in line.what]
    assert all(ratio.low < 1 < ratio.high for ratio in ratios)


@pytest.mark.parametrize(
    ("by", "outcome"),
    [
        (("broker", "broker"), REPRODUCED), (("fsync", "instance"), NOT_REPRODUCED), (("fsync", "broker"), UNDECIDED),
        (("unknown", "tried"), UNDECIDED), (("fsync", "tried"), NOT_REPRODUCED),
    ],
)  # fmt: skip
def test_the_limit_that_the_searches_found(tmp_path: Path, by: tuple[str, str], outcome: str) -> None:
    found = [
        {"limit_per_s": 1000.0 * (at + 1), "limited_by": one, "evidence": {one: 0.93}} for at, one in enumerate(by)
    ]
    truths = [twin.single(1, "row", more=found[0]), twin.single(0.5, "copy", more=found[1])]
    # The usual settings of a search.
    settings = {"max_inflight": 0, "confine": "broker", "write_modes": ["prototype", "row"]}
    twin.write_twin_run(tmp_path, truths, scenario="twin-limit", settings=settings)
    finding = findings(tmp_path)["limit"]
    assert finding.outcome == outcome
    assert "93%" in finding.lines[0].what


def test_repeated_searches_give_the_limit_an_interval(tmp_path: Path) -> None:
    limits = ((980.0, "fsync"), (1010.0, "fsync"), (1000.0, "database"), (1020.0, "fsync"))
    found = [{"limit_per_s": rate, "limited_by": by, "evidence": {by: 0.9}} for rate, by in limits]
    truths = [twin.single(1, "row", repetition=at, more=one) for at, one in enumerate(found)]
    twin.write_twin_run(tmp_path, truths, scenario="twin-limit")
    (line,) = analysed(tmp_path).verdict("limit").lines
    assert line.what.endswith("the commit to disk at 90% (3 of 4 searches)")
    assert 950 < line.value.low < line.value.estimate < line.value.high < 1050
