"""The report on asip: verdicts on runs of known truth, published rows beside measured ones."""

import math
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure
from support.places import ROOT
from support.reports import Shown, shown
from support.run_files import edited, write_study
from support.simulated_asip_runs import (
    WIRE_US,
    as_published,
    near_the_wire,
    write_latency_run,
    write_throughput_run,
)
from support.tables import rows

from looplab.experiments.asip import NAME
from looplab.experiments.asip.report import published
from looplab.experiments.asip.report.figures import sketches
from looplab.report.verdicts import NO_PLAN, NOT_REPRODUCED, NOT_RUN, ONE_RUN, REPRODUCED, TWO_RUNS, UNDECIDED

RUNS = 5


def analysed(results: Path) -> Shown:
    return shown(results, "asip")


def outcomes(results: Path) -> dict[str, str]:
    return {
        name: found["thesis"].because or found["thesis"].outcome for name, found in analysed(results).verdicts.items()
    }


def many(write_one: Any, results: Path, runs: int = RUNS, **truth: Any) -> None:
    for day in range(1, runs + 1):
        write_one(results, start=f"202603{day:02}T000000Z", **truth)
    write_study(results)


def test_one_run_shows_a_ratio_and_gives_no_verdict(tmp_path: Path) -> None:
    write_latency_run(tmp_path)
    write_throughput_run(tmp_path)
    found = outcomes(tmp_path)
    assert {*found.values()} == {ONE_RUN}
    verdict = analysed(tmp_path).verdict("language-hardly")
    truth = math.prod(near_the_wire("java", t, "one") / near_the_wire("python", t, "one") for t in published.TRANSPORTS)
    assert verdict.lines[0].value.estimate == pytest.approx(truth ** (1 / 3), rel=1e-6)
    assert "A verdict needs 3 runs a side" in verdict.reason
    # Published rows come before those of the run.
    tracked, latency = (dict(rows) for _heading, _unit, rows in analysed(tmp_path).context["beside"][::-1])
    assert [value and value.estimate for value in tracked["MacBook Pro"]] == [200, 80, 80, 90, 80, 50]
    here = [near_the_wire(la, t, "one") / 1000 for la in published.LANGUAGES for t in published.TRANSPORTS]
    assert [value.estimate for value in latency["here: one machine"]] == pytest.approx(here, rel=1e-3)


def test_two_runs_are_too_few(tmp_path: Path) -> None:
    many(write_latency_run, tmp_path, runs=2)
    assert outcomes(tmp_path)["language-hardly"] == TWO_RUNS


def test_published_throughput_is_reproduced(tmp_path: Path) -> None:
    many(write_throughput_run, tmp_path, tracked_hz=as_published)
    found = outcomes(tmp_path)
    assert found["java-tracks-more"] == found["serial-tracks-more"] == REPRODUCED
    # 200 and 90 of 310 Hz are not very close to the wire.
    assert found["near-capacity"] == NOT_REPRODUCED
    assert found["below-15-ms"] == NOT_RUN


def test_a_client_at_the_wires_limit_whatever_its_language(tmp_path: Path) -> None:
    many(write_throughput_run, tmp_path, tracked_hz=lambda _la, _tr, _pl: 305.0)
    found = outcomes(tmp_path)
    assert found["java-tracks-more"] == found["serial-tracks-more"] == NOT_REPRODUCED
    assert found["tcp-tracks-like-mqtt"] == found["near-capacity"] == REPRODUCED


def test_a_client_whose_processor_is_busy_is_limited_by_it(tmp_path: Path) -> None:
    many(write_throughput_run, tmp_path, tracked_hz=lambda _la, _tr, _pl: 100.0, edge_cpu_us=4_900.0)
    assert outcomes(tmp_path)["processor-limits"] == REPRODUCED
    idle = tmp_path / "idle"
    many(write_throughput_run, idle, tracked_hz=lambda _la, _tr, _pl: 305.0, edge_cpu_us=50.0)
    assert outcomes(idle)["processor-limits"] == NOT_REPRODUCED
    # Two edges a period: 305 Hz of 50 us each are 3 % of a processor.
    shares = [line.value.estimate for line in analysed(idle).verdict("processor-limits").lines]
    assert shares == pytest.approx([0.0305] * 2, rel=0.02)


def test_latency_that_hardly_depends_on_anything(tmp_path: Path) -> None:
    many(write_latency_run, tmp_path)
    found = outcomes(tmp_path)
    assert found["language-hardly"] == found["channel-hardly"] == found["below-15-ms"] == REPRODUCED
    assert found["floor"] == NOT_REPRODUCED
    next(tmp_path.glob("*.study.json")).unlink()
    assert {*outcomes(tmp_path).values()} == {NO_PLAN, NOT_RUN}


def test_a_language_that_matters_is_seen(tmp_path: Path) -> None:
    many(write_latency_run, tmp_path, mean_us=lambda la, _tr, _pl: 16_000.0 if la == "python" else 4_000.0)
    found = outcomes(tmp_path)
    assert found["language-hardly"] == found["below-15-ms"] == NOT_REPRODUCED
    assert found["channel-hardly"] == REPRODUCED


def test_a_floor_of_32_characters_is_reproduced(tmp_path: Path) -> None:
    many(write_latency_run, tmp_path, runs=3, mean_us=lambda *_key: 9_000.0, wire_us=6_700.0)
    assert outcomes(tmp_path)["floor"] == REPRODUCED


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


def test_a_board_behind_real_time_stands_beside_the_verdict(tmp_path: Path) -> None:
    with edited(write_latency_run(tmp_path)) as run:
        run["treatments"][0] |= {"found": "862.40 ms behind", "verified": False, "required": False}
    assert "was 862.40 ms behind" in analysed(tmp_path).verdict("below-15-ms").notes[0]


def test_lost_tests_are_counted_and_the_mean_is_of_the_answered(tmp_path: Path) -> None:
    folder = write_latency_run(tmp_path, lost=7)
    cell: Any = analysed(tmp_path).measured[0].cells["python", "serial", "one"]
    assert (cell.tests, cell.answered, cell.lost) == (100, 93, 7)
    assert cell.figure("lost_share") == pytest.approx(0.07)
    assert cell.figure("over_wire") == pytest.approx(cell.statistic("latency", "avg") / WIRE_US)
    lines = (folder / "samples.csv").read_text().replace(",answered", ",lost", 1)
    (folder / "samples.csv").write_text(lines)
    assert "disagree at python, serial, one" in analysed(tmp_path).selection.unusable[0].meaning


def test_the_published_figures_are_those_of_the_source() -> None:
    assert len(published.figures()) == 56
    # As the page says where the source contradicts itself.
    above = published.figures().query("measure == 'latency_ms' and value > 15")["value"]
    assert (len(above), max(above)) == (4, 45)
    assert published.value("latency_ms", "python", "mqtt", "broker") == 45.0
    # A Raspberry Pi 2 has its bridge on a second one; the MacBook Pro stands for the placement.
    assert published.value("latency_ms", "java", "tcp", "bridge") == 12.9
    assert published.value("throughput_hz", "java", "serial", "one") == 200
    assert published.value("throughput_hz", "java", "serial", "broker") is None
    # Java over Python on the MacBook Pro alone: 200/90, 80/80, 80/50; all fifteen pairs together:
    table = rows(ROOT / "src/looplab/experiments/asip/report/published/asip.csv")
    lines = [line for line in table if line["measure"] == "throughput_hz"]
    values = {(line["configuration"], line["transport"], line["language"]): float(line["value"]) for line in lines}
    logs = [math.log(v / values[c, t, "python"]) for (c, t, la), v in values.items() if la == "java"]
    assert published.ratio("throughput_hz", "language", "python", "java") == pytest.approx(math.exp(sum(logs) / 14))


def test_a_curve_is_of_all_tests_that_were_sent(tmp_path: Path) -> None:
    write_latency_run(tmp_path, lost=10)
    (run,) = analysed(tmp_path).measured
    (plot,) = (one for one in sketches({NAME: run}) if one.figure == "latencies")
    axes = Figure().subplots()
    plot.put(axes)
    assert {max(line.get_ydata()) for line in axes.lines[: len(run.cells)]} == {0.9}
