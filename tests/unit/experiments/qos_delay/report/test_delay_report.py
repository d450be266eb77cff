"""The report on network delay and QoS: verdicts on runs of known truth, a page that needs nothing else."""

from pathlib import Path
from typing import Any

import pytest
from support.reports import Shown, shown
from support.run_files import repeat
from support.simulated_delay_runs import SYMMETRICAL, as_published, one_way, write_delay_run

from looplab.report.verdicts import NO_PLAN, NOT_REPRODUCED, NOT_RUN, ONE_RUN, REPRODUCED, TWO_RUNS, Verdict


def analysed(results: Path) -> Shown:
    return shown(results, "qos-delay")


def verdicts(results: Path, fidelity: str = "thesis") -> dict[str, Verdict]:
    repeat(results)
    return {name: found[fidelity] for name, found in analysed(results).verdicts.items()}


def test_a_run_like_the_published_one_reproduces_every_finding(tmp_path: Path) -> None:
    write_delay_run(tmp_path, networks={"normal": 1.0, "uniform": 1.05, "pareto": 0.95})
    found = verdicts(tmp_path)
    assert {name: finding.outcome for name, finding in found.items()} == dict.fromkeys(found, REPRODUCED)


def test_without_nagle_no_round_trip_and_no_aggregation(tmp_path: Path) -> None:
    write_delay_run(tmp_path, fidelity="corrected", ratio=one_way, packets=lambda _p, _b, _q: 1.0)
    found = verdicts(tmp_path, "corrected")
    assert found["one-way-when-short"].outcome == found["place"].outcome == REPRODUCED
    for name in ("round-trip-beyond", "qos-2-least", "qos-2-most", "aggregation-grows", "segment-size"):
        assert found[name].outcome == NOT_REPRODUCED, name


def test_the_ratio_is_that_of_the_delay_that_was_made(tmp_path: Path) -> None:
    # The emulator made 44 ms where 40 were asked for: the ratio is of what was made.
    made = {"end_to_end_ms": {"pb": 22.0, "bs": 22.0, "total": 44.0}}
    write_delay_run(tmp_path, cell_changes={(20, 20, 0, "normal"): made})
    cell: Any = analysed(tmp_path).measured[0].cells[20.0, 20.0, 0, "normal"]
    assert cell.interval("ratio").estimate == pytest.approx(2 * 40 / 44, rel=0.02)
    assert cell.interval("ratio").low < cell.interval("ratio").estimate < cell.interval("ratio").high
    assert cell.interval("L.avg").estimate == pytest.approx(80_000, rel=0.02)


def test_a_place_that_matters_is_seen(tmp_path: Path) -> None:
    def placed(pb: float, bs: float, qos: int) -> float:
        return as_published(pb, bs, qos) * (2 if pb > bs else 1)

    write_delay_run(tmp_path, ratio=placed)
    found = verdicts(tmp_path)
    assert found["place"].outcome == NOT_REPRODUCED


def test_a_distribution_that_matters_is_seen(tmp_path: Path) -> None:
    # What is lost or sent twice is no distribution: the source says nothing of it.
    write_delay_run(tmp_path, networks={"normal": 1.0, "loss-1": 9.0})
    assert verdicts(tmp_path)["distributions"].because == NOT_RUN
    write_delay_run(tmp_path, networks={"normal": 1.0, "pareto": 2.0}, start="20260203T000000Z")
    assert verdicts(tmp_path)["distributions"].outcome == NOT_REPRODUCED


def test_one_delay_with_less_than_four_refutes_qos_2(tmp_path: Path) -> None:
    """The mean over the delays is above four."""
    write_delay_run(tmp_path, ratio=lambda pb, bs, qos: 3.2 if (pb, qos) == (5, 2) else as_published(pb, bs, qos))
    found = verdicts(tmp_path)["qos-2-least"]
    assert found.outcome == NOT_REPRODUCED
    assert "5 + 5 ms, QoS 2" in found.reason


def test_the_largest_latency_is_that_of_the_longest_delay(tmp_path: Path) -> None:
    """Chance makes one of many cells the largest: which one counts is settled before."""
    write_delay_run(
        tmp_path, ratio=lambda pb, bs, qos: 9.0 if (pb, bs) == (5, 5) else min(as_published(pb, bs, qos), 5)
    )
    assert verdicts(tmp_path)["qos-2-most"].outcome == NOT_REPRODUCED


def test_runs_that_nobody_planned_give_no_word(tmp_path: Path) -> None:
    """Six whole runs, as clear as can be, and one: each claim of the page asks how many were planned."""
    write_delay_run(tmp_path, networks={"normal": 1.0, "uniform": 1.0})
    assert {by["thesis"].because for by in analysed(tmp_path).verdicts.values()} == {ONE_RUN}
    assert {one.outcome for one in verdicts(tmp_path).values()} == {REPRODUCED}
    next(tmp_path.glob("*.study.json")).unlink()
    assert {by["thesis"].because for by in analysed(tmp_path).verdicts.values()} == {NO_PLAN}


def test_aggregation_by_qos_and_without_growth(tmp_path: Path) -> None:
    write_delay_run(tmp_path, packets=lambda _p, _b, qos: 1.0 + qos)
    found = verdicts(tmp_path)
    assert found["aggregation-qos"].outcome == NOT_REPRODUCED
    assert found["aggregation-grows"].outcome == NOT_REPRODUCED


def test_too_few_cells_and_too_short_ones_decide_nothing(tmp_path: Path) -> None:
    # Fewer connections than an interval needs: each cell stands on its estimate alone.
    write_delay_run(tmp_path, pairs=SYMMETRICAL[:2], messages=150, repetitions=2)
    found = analysed(tmp_path)
    assert found.verdict("place").because == NOT_RUN
    assert found.verdict("aggregation-grows").reason == "Needs segments at 4 delays."
    cell: Any = analysed(tmp_path).measured[0].cells[2.0, 2.0, 0, "normal"]
    assert not cell.interval("ratio").known


def test_an_invalid_cell_is_left_out_and_an_invalid_run_says_so(tmp_path: Path) -> None:
    broken = {"valid": False, "invalid_because": ["the emulator was gone"]}
    write_delay_run(
        tmp_path,
        ratio=lambda pb, bs, qos: 9.0 if (pb, bs, qos) == (60, 60, 2) else as_published(pb, bs, qos) * 0.8,
        cell_changes={(60, 60, 2, "normal"): broken},
        changes={"valid": False, "invalid_because": ["60 + 60 ms: the emulator was gone"]},
    )
    finding = analysed(tmp_path).verdict("qos-2-most")
    assert finding.because == ONE_RUN
    assert "9.0" not in finding.reason
    assert "INVALID" in finding.notes[0]


def test_nagle_stands_beside_the_findings_that_it_makes(tmp_path: Path) -> None:
    write_delay_run(tmp_path)
    write_delay_run(
        tmp_path, fidelity="corrected", start="20260202T000000Z", ratio=one_way, packets=lambda _p, _b, _q: 1.0
    )
    found = verdicts(tmp_path)
    assert "Nagle" in found["round-trip-beyond"].notes[-1]
    assert "3.00" in found["qos-2-least"].notes[-1]


def test_two_runs_decide_no_more_than_the_connections_of_both(tmp_path: Path) -> None:
    """At the edge of "about 1": the interval of one run holds both sides of it, and so does that of two."""
    for day, outcome in ((1, ONE_RUN), (2, TWO_RUNS)):
        write_delay_run(
            tmp_path, pairs=SYMMETRICAL[:1], ratio=lambda *_key: 2**0.5, messages=60, start=f"2026020{day}T000000Z"
        )
        cell: Any = next(iter(analysed(tmp_path).measured[0].cells.values()))
        assert len(cell.runs) in (0, 2)
        assert cell.interval("ratio").low < cell.interval("ratio").estimate < cell.interval("ratio").high
        assert analysed(tmp_path).verdict("one-way-when-short").because == outcome


def test_of_three_runs_the_segments_are_those_of_all(tmp_path: Path) -> None:
    for day, count in ((1, 1.0), (2, 2.0), (3, 6.0)):
        write_delay_run(
            tmp_path, pairs=SYMMETRICAL[:1], packets=lambda *_key, count=count: count, start=f"2026020{day}T000000Z"
        )
    cell: Any = next(iter(analysed(tmp_path).measured[0].cells.values()))
    assert cell.packets_per_segment == pytest.approx(3.0)
    sizes = [one.largest_segment_bytes for one in cell.runs]
    assert cell.largest_segment_bytes == max(sizes) > min(sizes)
