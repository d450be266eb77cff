"""The report on network delay and QoS: verdicts on runs of known truth, a page that needs nothing else."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.reports import shown
from support.run_files import edited, repeat
from support.simulated_delay_runs import as_published, one_way, write_delay_run

from looplab.report.verdicts import NOT_REPRODUCED, NOT_RUN, REPRODUCED, Verdict

analysed = partial(shown, experiment="qos-delay")


def verdicts(results: Path, fidelity: str = "thesis") -> dict[str, Verdict]:
    repeat(results)
    return {name: found[fidelity] for name, found in analysed(results).verdicts.items()}


def test_a_run_like_the_published_one_reproduces_every_finding(tmp_path: Path) -> None:
    write_delay_run(tmp_path, networks={"normal": 1.0, "uniform": 1.05, "pareto": 0.95})
    found = verdicts(tmp_path)
    assert {name: finding.outcome for name, finding in found.items()} == dict.fromkeys(found, REPRODUCED)


def test_without_nagle_no_round_trip_and_no_aggregation(tmp_path: Path) -> None:
    write_delay_run(tmp_path, "--fidelity corrected", ratio=one_way, packets=lambda _p, _b, _q: 1.0)
    found = verdicts(tmp_path, "corrected")
    assert found["one-way-when-short"].outcome == found["place"].outcome == REPRODUCED
    for name in ("round-trip-beyond", "qos-2-least", "qos-2-most", "aggregation-grows", "segment-size"):
        assert found[name].outcome == NOT_REPRODUCED, name


def test_the_ratio_is_that_of_the_delay_that_was_made(tmp_path: Path) -> None:
    # The emulator made 44 ms where 40 were asked for: the ratio is of what was made.
    with edited(write_delay_run(tmp_path)) as run:
        made = next(cell for cell in run["cells"] if cell["delay_pb_ms"] == cell["delay_bs_ms"] == 20)
        made["end_to_end_ms"]["total"] = 44.0
    cell: Any = analysed(tmp_path).measured[0].cells[20.0, 20.0, 0, "normal"]
    assert cell.interval("ratio").estimate == pytest.approx(2 * 40 / 44, rel=0.02)
    assert cell.interval("ratio").low < cell.interval("ratio").estimate < cell.interval("ratio").high
    assert cell.interval("L.avg").estimate == pytest.approx(80_000, rel=0.02)


def test_a_distribution_that_matters_is_seen(tmp_path: Path) -> None:
    # Not one of the source's.
    write_delay_run(tmp_path, networks={"normal": 1.0, "constant": 9.0})
    assert verdicts(tmp_path)["distributions"].because == NOT_RUN
    write_delay_run(tmp_path, networks={"normal": 1.0, "pareto": 2.0}, start="20260203T000000Z")
    assert verdicts(tmp_path)["distributions"].outcome == NOT_REPRODUCED


@pytest.mark.parametrize(
    ("truth", "refuted"),
    [
        ({"ratio": lambda pb, bs, qos: as_published(pb, bs, qos) * (2 if pb > bs else 1)}, "place"),
        # The mean over the delays is above four.
        ({"ratio": lambda pb, bs, qos: 3.2 if (pb, qos) == (5, 2) else as_published(pb, bs, qos)}, "qos-2-least"),
        # Chance makes one of many cells the largest: which one counts is settled before.
        ({"ratio": lambda pb, bs, qos: 9.0 if (pb, bs) == (5, 5) else min(as_published(pb, bs, qos), 5)}, "qos-2-most"),
        ({"packets": lambda _p, _b, qos: 1.0 + qos}, "aggregation-qos aggregation-grows"),
    ],
    ids=["a place that matters", "one delay below four", "the longest delay", "segments by QoS"],
)
def test_runs_that_contradict_a_finding_refute_it(tmp_path: Path, truth: dict[str, Any], refuted: str) -> None:
    write_delay_run(tmp_path, **truth)
    found = verdicts(tmp_path)
    assert {name: found[name].outcome for name in refuted.split()} == dict.fromkeys(refuted.split(), NOT_REPRODUCED)


def test_too_few_cells_and_too_short_ones_decide_nothing(tmp_path: Path) -> None:
    # Fewer connections than an interval needs: each cell stands on its estimate alone.
    write_delay_run(tmp_path, "--repetitions 2", delays=(2, 5), places="")
    found = analysed(tmp_path)
    assert found.verdict("place").because == NOT_RUN
    assert found.verdict("aggregation-grows").reason == "Needs segments at 4 delays."
    cell: Any = analysed(tmp_path).measured[0].cells[2.0, 2.0, 0, "normal"]
    assert not cell.interval("ratio").known


def test_of_three_runs_the_segments_are_those_of_all(tmp_path: Path) -> None:
    for day, count in ((1, 1.0), (2, 2.0), (3, 6.0)):
        write_delay_run(
            tmp_path, places="", delays=(2,), packets=lambda *_key, count=count: count, start=f"2026020{day}T000000Z"
        )
    cell: Any = next(iter(analysed(tmp_path).measured[0].cells.values()))
    assert cell.packets_per_segment == pytest.approx(3.0)
    sizes = [one.largest_segment_bytes for one in cell.runs]
    assert cell.largest_segment_bytes == max(sizes) > min(sizes)
