"""The report on twin: verdicts on runs of known truth, a page that needs nothing else."""

from pathlib import Path

import pytest
from support.reports import Shown, shown
from support.run_files import repeat
from support.simulated_twin_runs import (
    CAUSES,
    PUBLISHED_RATES,
    PUBLISHED_S,
    experiment_1,
    single,
    write_brokers,
    write_twin_run,
)

from looplab.experiments.twin.host import variables
from looplab.report.verdicts import (
    NO_CONTRAST,
    NO_PLAN,
    NOT_REPRODUCED,
    NOT_RUN,
    ONE_RUN,
    REPRODUCED,
    UNDECIDED,
    Verdict,
)


def analysed(results: Path) -> Shown:
    return shown(results, "twin")


def findings(results: Path, fidelity: str = "thesis") -> dict[str, Verdict]:
    repeat(results)
    found = {name: held[fidelity] for name, held in analysed(results).verdicts.items()}
    return {name: one for name, one in found.items() if isinstance(one, Verdict)}


def test_a_run_like_the_published_one_reproduces_experiment_1(tmp_path: Path) -> None:
    write_twin_run(tmp_path, experiment_1(), messages=300)
    found = findings(tmp_path)
    assert found["fifteen"].outcome == found["no-queue-above-67"].outcome == REPRODUCED
    (line,) = found["fifteen"].lines
    assert line.value.estimate == pytest.approx(14.85, rel=0.001)
    # 50, 40, 20 and 10 ms have a queue, each with the same rate out.
    assert line.value.known
    assert found["broker-is-the-limit"].because == found["more-brokers"].because == NOT_RUN


def test_1000_messages_take_the_published_67_seconds(tmp_path: Path) -> None:
    write_twin_run(tmp_path, experiment_1(), messages=300)
    found = findings(tmp_path)["drains-in-67"]
    assert found.outcome == REPRODUCED, found.reason
    assert [line.what for line in found.lines] == ["50 ms", "40 ms", "20 ms", "10 ms"]
    assert [line.value.estimate for line in found.lines] == pytest.approx([1000 / 14.85] * 4, rel=0.01)
    assert {line.published for line in found.lines} == {"67"}


def test_a_faster_instance_does_not_take_67_seconds(tmp_path: Path) -> None:
    write_twin_run(tmp_path, [single(10, service_s=0.03), single(50, service_s=0.03)])
    assert findings(tmp_path)["drains-in-67"].outcome == NOT_REPRODUCED


@pytest.mark.parametrize("settings", [{"write_modes": ["copy"]}, {"max_inflight": 0}, {"confine": "broker"}])
def test_no_verdict_rests_on_a_run_with_another_factor(tmp_path: Path, settings: dict[str, object]) -> None:
    """WRITE_MODE=copy of fidelity thesis made "at most 15 messages a second" not reproduced."""
    (mode,) = settings.get("write_modes", ["prototype"])  # type: ignore[misc]
    write_twin_run(tmp_path, [single(100, mode, service_s=0.001), single(10, mode, service_s=0.001)], settings=settings)
    page = analysed(tmp_path)
    assert {held["thesis"].because for held in page.verdicts.values()} == {NOT_RUN}
    write_twin_run(tmp_path, experiment_1(), messages=300, start="20260401T000000Z")
    assert findings(tmp_path)["fifteen"].outcome == REPRODUCED, "the run as usual decides, though it is older"


def test_a_list_with_the_usual_mode_is_as_usual(tmp_path: Path) -> None:
    write_twin_run(tmp_path, CAUSES, settings={"write_modes": ["prototype", "sleep", "session", "row", "copy"]})
    assert findings(tmp_path)["broker-is-the-limit"].outcome == NOT_REPRODUCED


def test_the_mode_of_its_fidelity_answers_for_a_run(tmp_path: Path) -> None:
    """The prototype is no part of what `corrected` shows of the paper's figures."""
    write_twin_run(tmp_path, CAUSES, fidelity="corrected", settings={"write_modes": ["prototype", "row"]})
    assert "row" in findings(tmp_path, "corrected")["fifteen"].reason


def test_the_search_has_no_window_as_usual(tmp_path: Path) -> None:
    found = {"limit_per_s": 1000.0, "limited_by": "broker", "evidence": {"broker": 0.9}}
    write_twin_run(
        tmp_path, [single(1, "row", more=found)], scenario="twin-limit",
        settings={"max_inflight": 0, "confine": "broker", "write_modes": ["prototype", "row"]},
    )  # fmt: skip
    assert findings(tmp_path)["limit"].outcome == REPRODUCED


@pytest.mark.parametrize(("at_qos_2", "outcome"), [(1.02, REPRODUCED), (2.0, NOT_REPRODUCED)])
def test_the_impact_of_qos_is_judged(tmp_path: Path, at_qos_2: float, outcome: str) -> None:
    truths = [
        single(10, qos=qos, repetition=at, service_s=PUBLISHED_S * (at_qos_2 if qos == 2 else 1) * (1 + at / 1000))
        for qos in (0, 1, 2)
        for at in range(4)
    ]
    write_twin_run(tmp_path, truths)
    found = findings(tmp_path)["qos-low-impact"]
    assert found.outcome == outcome, found.reason
    assert [line.what for line in found.lines] == ["QoS 1 against QoS 0", "QoS 2 against QoS 0"]


def test_the_impact_of_persistence_needs_a_run_with_it(tmp_path: Path) -> None:
    def run(start: str, **settings: object) -> None:
        truths = [single(10, repetition=at, service_s=PUBLISHED_S * (1 + at / 1000)) for at in range(4)]
        write_twin_run(tmp_path, truths, start=start, settings=settings)

    run("20260501T000000Z")
    assert findings(tmp_path)["persistence-low-impact"].because == NOT_RUN
    run("20260502T000000Z", persistence=True)
    assert findings(tmp_path)["persistence-low-impact"].outcome == REPRODUCED


def test_similar_totals_of_both_placements_are_judged(tmp_path: Path) -> None:
    write_brokers(tmp_path, 0.005, 0.005)
    found = findings(tmp_path)["totals-alike"]
    assert found.outcome == REPRODUCED, found.reason
    assert [line.published for line in found.lines] == ["-2.5%", "+5.5%"]


def test_totals_that_differ_are_not_similar(tmp_path: Path) -> None:
    rates = {**PUBLISHED_RATES, (2, "distributed"): 20.0, (4, "distributed"): 20.0}
    write_brokers(tmp_path, 0.005, 0.005, rates=rates)
    assert findings(tmp_path)["totals-alike"].outcome == NOT_REPRODUCED


def test_an_instance_that_keeps_up_reproduces_neither(tmp_path: Path) -> None:
    write_twin_run(tmp_path, experiment_1(messages_faster=True), fidelity="corrected")
    found = findings(tmp_path, "corrected")
    assert found["fifteen"].outcome == found["no-queue-above-67"].outcome == NOT_REPRODUCED
    assert "100.0 messages a second" in found["fifteen"].reason


def test_a_run_that_never_asked_for_more_does_not_exceed_15(tmp_path: Path) -> None:
    write_twin_run(tmp_path, [single(100, service_s=0.002), single(80, service_s=0.002)])
    assert findings(tmp_path)["fifteen"].outcome == UNDECIDED


def test_each_cause_taken_away_is_named_with_its_rate(tmp_path: Path) -> None:
    write_twin_run(tmp_path, CAUSES)
    found = findings(tmp_path)
    rates = {line.what: line.value.estimate for line in found["fifteen"].lines}
    assert list(rates.values()) == pytest.approx([14.85, 1 / 0.055, 1 / 0.012, 100, 100], rel=0.01)
    assert sum("no queue yet" in what for what in rates) == 2
    assert found["broker-is-the-limit"].outcome == NOT_REPRODUCED
    assert "6.7 times as many" in found["broker-is-the-limit"].reason


def test_what_the_instance_did_meanwhile_is_said(tmp_path: Path) -> None:
    spent = {"instance_s": {"sleep": 10.0, "session": 2.0, "store": 1.0}, "cpu_share": {"broker": [0.002, None]}}
    write_twin_run(tmp_path, [single(100, more=spent), single(10, more=spent)])
    said = findings(tmp_path)["fifteen"].notes[0]
    assert "slept 50.0 ms for each message, opened a session for 10.0 ms and stored for 5.0 ms" in said
    assert "0.2% of a processor" in said


def test_a_broker_that_is_the_limit_is_so_with_every_instance(tmp_path: Path) -> None:
    modes = ("prototype", "sleep", "session", "row", "copy")
    write_twin_run(tmp_path, [single(10, mode) for mode in modes])
    assert findings(tmp_path)["broker-is-the-limit"].outcome == REPRODUCED


def test_a_queue_at_a_long_interval_is_seen(tmp_path: Path) -> None:
    write_twin_run(tmp_path, [single(ms, service_s=0.2) for ms in (100, 80, 50, 10)])
    found = findings(tmp_path)
    assert found["no-queue-above-67"].outcome == NOT_REPRODUCED
    assert found["fifteen"].outcome == NOT_REPRODUCED


def test_more_brokers_as_published(tmp_path: Path) -> None:
    write_brokers(tmp_path, 0.01, 0.01)
    found = findings(tmp_path)
    assert found["more-brokers"].outcome == REPRODUCED, found["more-brokers"].reason
    lines = {line.what: line for line in found["more-brokers"].lines}
    assert lines["4 brokers, central: total"].published == "48.08"
    assert lines["4 brokers, central: total"].value.estimate == pytest.approx(4 * 12.02, rel=0.02)
    assert lines["2 brokers, distributed: each"].value.estimate == pytest.approx(13.50, rel=0.02)


def test_brokers_that_do_not_hinder_are_not_as_published(tmp_path: Path) -> None:
    write_brokers(tmp_path, 0.002, 0.002, rates=dict.fromkeys(PUBLISHED_RATES, 14.85))
    found = findings(tmp_path)["more-brokers"]
    assert found.outcome == NOT_REPRODUCED
    assert "The total rises at 4 of 4 steps" in found.reason


@pytest.mark.parametrize(("scale", "because"), [(1.0, ""), (0.5, NO_CONTRAST)])
def test_machines_that_share_a_processor_are_no_contrast(tmp_path: Path, scale: float, because: str) -> None:
    """Of two processors both placements of two brokers have processor 0: twin.host gives '0' to each."""
    sets = variables({"SCENARIO": "twin-brokers"}, [0, 1])
    assert {sets[f"TWIN_CPUSET_{name}"] for name in ("BROKER_1", "BROKER_2", "2")} == {"0"}
    write_brokers(tmp_path, 0.005, 0.1, settings={"confinement": "cpuset", "machine_scale": scale})
    found = findings(tmp_path)
    assert {found[name].because for name in ("totals-alike", "distributed-varies")} == {because}
    assert found["distributed-varies"].lines
    assert found["more-brokers"].because == ""


def test_one_iteration_decides_nothing(tmp_path: Path) -> None:
    write_brokers(tmp_path, 0.01, 0.01, iterations=1)
    found = analysed(tmp_path)
    assert found.verdict("more-brokers").because == ONE_RUN
    assert found.verdict("distributed-varies").because == NOT_RUN


def test_a_variance_that_differs_much_is_found(tmp_path: Path) -> None:
    write_brokers(tmp_path, 0.005, 0.1)
    found = findings(tmp_path)["distributed-varies"]
    assert found.outcome == REPRODUCED, found.reason
    assert any(line.published == "14.36" for line in found.lines)
    assert "p 0.06" in found.notes[1], "what the paper's own five values show"


def test_equal_variances_are_not_called_different(tmp_path: Path) -> None:
    write_brokers(tmp_path, 0.02, 0.02)
    found = analysed(tmp_path).verdict("distributed-varies")
    assert found.because == ONE_RUN
    ratios = [line for line in found.lines if "over central" in line.what]
    assert all(line.value.low < 1 < line.value.high for line in ratios)


def test_of_three_runs_variances_are_compared_run_by_run(tmp_path: Path) -> None:
    """Whose ratio is 100 in one run and 1 in two has no ratio; 15 repetitions taken for one run would have it."""
    for day, spread in ((1, 0.1), (2, 0.01), (3, 0.01)):
        write_brokers(tmp_path, 0.01, spread, start=f"2026050{day}T000000Z")
    found = findings(tmp_path)["distributed-varies"]
    assert found.outcome == UNDECIDED
    assert "run by run" in found.reason
    ratios = [line.value for line in found.lines if "over central" in line.what]
    assert all(ratio.low < 1 < ratio.high for ratio in ratios)


def test_a_variance_that_differs_in_each_of_three_runs_is_found(tmp_path: Path) -> None:
    for day in (1, 2, 3):
        write_brokers(
            tmp_path, 0.005, 0.1, start=f"2026050{day}T000000Z", rates=dict.fromkeys(PUBLISHED_RATES, 13.0 + day)
        )
    found = findings(tmp_path)["distributed-varies"]
    assert found.outcome == REPRODUCED, found.reason


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
    truths = [single(1, "row", more=found[0]), single(0.5, "copy", more=found[1])]
    write_twin_run(tmp_path, truths, scenario="twin-limit")
    finding = findings(tmp_path)["limit"]
    assert finding.outcome == outcome
    assert "93%" in finding.lines[0].what


def test_repeated_searches_give_the_limit_an_interval(tmp_path: Path) -> None:
    limits = ((980.0, "fsync"), (1010.0, "fsync"), (1000.0, "database"), (1020.0, "fsync"))
    found = [{"limit_per_s": rate, "limited_by": by, "evidence": {by: 0.9}} for rate, by in limits]
    truths = [single(1, "row", repetition=at, more=one) for at, one in enumerate(found)]
    write_twin_run(tmp_path, truths, scenario="twin-limit")
    (line,) = analysed(tmp_path).verdict("limit").lines
    assert line.what.endswith("the commit to disk at 90% (3 of 4 searches)")
    assert 950 < line.value.low < line.value.estimate < line.value.high < 1050


def test_an_invalid_cell_is_left_out(tmp_path: Path) -> None:
    broken = single(20, service_s=0.001, faults=["the database was gone"])
    write_twin_run(
        tmp_path,
        [single(100), single(80), broken, single(10)],
        changes={"valid": False, "invalid_because": ["20 ms: the database was gone"]},
    )
    found = analysed(tmp_path).verdict("no-queue-above-67")
    assert found.because == ONE_RUN
    assert len(found.lines) == 3
    assert "INVALID" in found.notes[0]


def test_of_three_runs_each_counts_once_whatever_its_cells(tmp_path: Path) -> None:
    """Runs 10 % apart: what their many repetitions agree in does not make the interval narrow."""
    for day, factor in ((1, 0.9), (2, 1.0), (3, 1.1)):
        rates = {key: rate * factor for key, rate in PUBLISHED_RATES.items()}
        write_brokers(tmp_path, 0.002, 0.002, rates=rates, start=f"2026050{day}T000000Z")
        write_twin_run(
            tmp_path, [single(ms, service_s=PUBLISHED_S / factor) for ms in (100, 40, 20, 10)],
            start=f"2026050{day}T100000Z",
        )  # fmt: skip
    assert {held["thesis"].because for held in analysed(tmp_path).verdicts.values()} == {NO_PLAN, NOT_RUN}
    found = findings(tmp_path)
    rate = found["fifteen"].lines[0].value
    one = {line.what: line.value for line in found["more-brokers"].lines}["1 broker: each"]
    assert (one.low, one.high) == pytest.approx((14.85 / 1.29, 14.85 * 1.28), rel=0.03)
    assert (rate.low, rate.high) == pytest.approx((one.low, one.high), rel=0.01)
    # Of three runs 10 % apart nothing is certain that is 10 % apart.
    assert found["more-brokers"].outcome == UNDECIDED
