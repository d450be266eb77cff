"""The report on asip: verdicts on runs of known truth, published rows beside measured ones."""

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.reports import shown
from support.run_files import edited, write_study
from support.simulated_asip_runs import (
    as_published,
    near_the_wire,
    write_latency_run,
    write_throughput_run,
)

from looplab.experiments.asip.parameters import TRANSPORTS
from looplab.experiments.asip.report import published, published_ratio, published_value
from looplab.experiments.asip.report.figures import PRINTED_ORDER
from looplab.report.verdicts import NO_PLAN, NOT_REPRODUCED, NOT_RUN, ONE_RUN, REPRODUCED, UNDECIDED

analysed = partial(shown, experiment="asip")


def outcomes(results: Path) -> dict[str, str]:
    return {
        name: found["thesis"].because or found["thesis"].outcome for name, found in analysed(results).verdicts.items()
    }


def many(write_one: Any, results: Path, **truth: Any) -> None:
    for day in range(1, 6):
        write_one(results, start=f"202603{day:02}T000000Z", **truth)
    write_study(results)


def test_one_run_shows_a_ratio_and_gives_no_verdict(tmp_path: Path) -> None:
    write_latency_run(tmp_path)
    write_throughput_run(tmp_path)
    found = outcomes(tmp_path)
    assert {*found.values()} == {ONE_RUN}
    verdict = analysed(tmp_path).verdict("language-hardly")
    truth = math.prod(near_the_wire("java", t, "one") / near_the_wire("python", t, "one") for t in TRANSPORTS)
    assert verdict.lines[0].value.estimate == pytest.approx(truth ** (1 / 3), rel=1e-6)
    assert "A verdict needs 3 runs a side" in verdict.reason
    # Published rows come before those of the run.
    tracked, latency = (dict(rows) for _heading, _unit, rows in analysed(tmp_path).context["beside"][::-1])
    assert [value and value.estimate for value in tracked["MacBook Pro"]] == [200, 80, 80, 90, 80, 50]
    here = [near_the_wire(la, t, "one") / 1000 for la in PRINTED_ORDER for t in TRANSPORTS]
    assert [value.estimate for value in latency["here: one machine"]] == pytest.approx(here, rel=1e-3)


def everywhere(value: float) -> Callable[..., float]:
    return lambda *_key: value


@pytest.mark.parametrize(
    ("write", "truth", "reproduced", "not_reproduced"),
    [
        # 200 and 90 of 310 Hz are not very close to the wire.
        (write_throughput_run, {"tracked_hz": as_published}, "java-tracks-more serial-tracks-more", "near-capacity"),
        (
            write_throughput_run, {"tracked_hz": everywhere(305)}, "tcp-tracks-like-mqtt near-capacity",
            "java-tracks-more serial-tracks-more processor-limits",
        ),
        (write_throughput_run, {"tracked_hz": everywhere(100), "edge_cpu_us": 4_900}, "processor-limits", ""),
        (write_latency_run, {}, "language-hardly channel-hardly below-15-ms", "floor"),
        (
            write_latency_run, {"mean_us": lambda la, _tr, _pl: 16_000 if la == "python" else 4_000},
            "channel-hardly", "language-hardly below-15-ms",
        ),
    ],
    ids=["as published", "at the wire", "busy client", "near the wire", "slow language"],
)  # fmt: skip
def test_runs_of_known_truth_are_judged(
    tmp_path: Path, write: Any, truth: dict[str, Any], reproduced: str, not_reproduced: str
) -> None:
    many(write, tmp_path, **truth)
    found = outcomes(tmp_path)
    assert {found[name] for name in reproduced.split()} == {REPRODUCED}
    assert {found[name] for name in not_reproduced.split()} <= {NOT_REPRODUCED}
    next(tmp_path.glob("*.study.json")).unlink()
    assert {*outcomes(tmp_path).values()} == {NO_PLAN, NOT_RUN}


def test_the_share_of_a_processor_is_that_of_two_edges_a_period(tmp_path: Path) -> None:
    """305 Hz of 50 us an edge are 3 %."""
    write_throughput_run(tmp_path, tracked_hz=everywhere(305), edge_cpu_us=50)
    shares = [line.value.estimate for line in analysed(tmp_path).verdict("processor-limits").lines]
    assert shares == pytest.approx([0.0305] * 2, rel=0.02)


def test_a_client_that_tracks_nothing_decides_nothing(tmp_path: Path) -> None:
    silent = ("java", "mqtt", "one")
    many(write_throughput_run, tmp_path, tracked_hz=lambda *key: 1.0 if key == silent else 100.0)
    for folder in tmp_path.glob("*/"):
        with edited(folder) as run:
            for cell in run["cells"]:
                if cell["tracked_hz"] < 2:
                    cell["tracked_hz"] = None
    verdict = analysed(tmp_path).verdict("java-tracks-more")
    assert verdict.outcome == UNDECIDED
    assert "tracked no frequency" in verdict.reason


def test_lost_tests_are_counted_and_the_mean_is_of_the_answered(tmp_path: Path) -> None:
    folder = write_latency_run(tmp_path, lost=7)
    cell: Any = analysed(tmp_path).measured[0].cells["python", "serial", "one"]
    assert (cell.tests, cell.answered, cell.lost) == (100, 93, 7)
    assert cell.figure("lost_share") == pytest.approx(0.07)
    lines = (folder / "samples.csv").read_text().replace(",answered", ",lost", 1)
    (folder / "samples.csv").write_text(lines)
    assert "disagree at python, serial, one" in analysed(tmp_path).selection.unusable[0].meaning


def test_the_published_figures_are_those_of_the_source() -> None:
    assert len(published()) == 56
    # A Raspberry Pi 2 has its bridge on a second one; the MacBook Pro stands for the placement.
    assert published_value("latency_ms", "java", "tcp", "bridge") == 12.9
    assert published_value("throughput_hz", "java", "serial", "one") == 200
    assert published_value("throughput_hz", "java", "serial", "broker") is None
    # Java over Python, all fifteen pairs together.
    keys = ["language", "configuration", "transport"]
    table = published().query("measure == 'throughput_hz'").set_index(keys)["value"]
    of_all = math.prod((table["java"] / table["python"]).dropna()) ** (1 / 14)
    assert published_ratio("throughput_hz", "language", "python", "java") == pytest.approx(of_all)
