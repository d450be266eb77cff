"""What the report shows beside the claims: remarks of the thesis, several brokers, causes and parts of a cell."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.reports import Page, shown, write
from support.run_checks import check_ledger
from support.run_files import edited, write_study
from support.simulated_runs import simulated_cell, write_run
from support.tables import rows

from looplab.experiments.loop.ledger import NAMES
from looplab.experiments.loop.report.analysis import whose
from looplab.experiments.loop.report.figures import curve_of
from looplab.report.verdicts import (
    BY_CONSTRUCTION,
    NO_VERDICT,
    NOT_REPRODUCED,
    OTHER_SCALE,
    REPRODUCED,
    UNDECIDED,
    Verdict,
)
from looplab.run.accounting import summarise

# Median O and R of a cell in us, by (interval_ms, qos).
Cells = dict[tuple[float, int], tuple[float, float]]


def study(results: Path, scenarios: dict[str, Cells], late_us: float = 0.0) -> Any:
    """Return what the report says of a study; messages at QoS 2 leave `late_us` late."""
    rng = np.random.default_rng(4)
    for number in range(10):
        for scenario, medians in scenarios.items():
            level = float(np.exp(rng.normal(0, 0.01)))
            cells = {key: simulated_cell(rng, 3, 40, o_us * level, r_us, 0.1) for key, (o_us, r_us) in medians.items()}
            with edited(write_run(results, scenario, start=f"20260101T00{number:02}00Z", cells=cells)) as run:
                run["parameters"]["robot"] = "virtual"
                for cell in run["cells"]:
                    cell["send_lateness_us"]["avg"] = late_us if cell["qos"] == 2 else 100.0
    write_study(results)
    return shown(results)


def at(*medians: float, robot_us: float = 4290, qos: int = 0) -> Cells:
    return {(ms, qos): (o_us, robot_us) for ms, o_us in zip((100.0, 50.0, 20.0, 10.0), medians, strict=False)}


@pytest.mark.parametrize(
    ("name", "scenarios", "outcome"),
    [
        # Published: T(min) 8.4 ms at 100 ms, 6.7 at 10 ms.
        ("shorter-interval", {"scenario0": at(10_000, 9000, 8500, 8000, robot_us=70)}, REPRODUCED),
        ("shorter-interval", {"scenario0": at(10_000, 10_000, 10_000, 13_000, robot_us=70)}, NOT_REPRODUCED),
        ("stress-spares-robot", {"scenario1": at(9000), "scenario2": at(13_000)}, REPRODUCED),
        ("stress-spares-robot", {"scenario1": at(9000), "scenario2": at(13_000, robot_us=6000)}, NOT_REPRODUCED),
        ("robot-third", {"scenario1": at(9000, 9000, 9000)}, BY_CONSTRUCTION),
        ("priority-alike", {"scenario4": at(11_000, 11_000, 11_000)}, REPRODUCED),
        ("priority-alike", {"scenario4": at(11_000, 13_000, 15_000)}, NOT_REPRODUCED),
        # Published: O(max) 23 and 40 ms, the mean of three intervals.
        ("maxima-stay", {"scenario1": at(19_000), "scenario4": at(33_000)}, REPRODUCED),
        ("maxima-stay", {"scenario1": at(1900), "scenario4": at(3300)}, OTHER_SCALE),
        ("maxima-stay", {"scenario1": at(19_000), "scenario4": at(12_000)}, NOT_REPRODUCED),
        # Its SD is as large a share of O in all cells.
        ("stress-varies", {"scenario1": at(9000), "scenario2": at(13_000)}, REPRODUCED),
        ("stress-median", {"scenario1": at(9000), "scenario2": at(8000)}, NOT_REPRODUCED),
        ("qos-priority", {"scenario8": {(20.0, 0): (15_000, 4290), (20.0, 1): (11_000, 4290)}}, REPRODUCED),
        ("qos-priority", {"scenario8": {(20.0, 0): (900, 4290), (20.0, 1): (11_000, 4290)}}, NOT_REPRODUCED),
    ],
)
def test_a_remark_is_judged(results: Path, name: str, scenarios: dict[str, Cells], outcome: str) -> None:
    found = study(results, scenarios).verdict(name)
    assert found.outcome == outcome, found.reason


@pytest.mark.parametrize(("late_us", "outcome"), [(16_000, REPRODUCED), (200, NOT_REPRODUCED)])
def test_a_client_that_waits_sends_later(results: Path, late_us: float, outcome: str) -> None:
    """With answers after 36 ms, one that waits at an interval of 20 ms is 16 ms late each time."""
    cells = {(20.0, qos): (median, 4290.0) for qos, median in ((0, 900.0), (2, 32_000.0))}
    report = study(results, {"scenario8": cells}, late_us=late_us)
    found = report.verdict("client-waits")
    assert found.outcome == outcome, found.reason
    assert "sends after each sleep" in found.notes[0]
    assert "20.10" in report.text


def test_each_broker_has_its_cells_and_a_finding_of_one_alone_differs(results: Path, tmp_path: Path) -> None:
    """A study of each broker, six rounds of scenarios 1 and 2: stress doubles mosquitto's O, not RabbitMQ's."""
    levels_us, out, rng = {"mosquitto": 900, "rabbitmq": 1500}, tmp_path / "out", np.random.default_rng(5)
    doubled = ("mosquitto", "scenario2")
    for day, (broker, level_us) in enumerate(levels_us.items(), 1):
        for scenario, load in (("scenario1", "none"), ("scenario2", "stress")):
            o_us = level_us * (2 if (broker, scenario) == doubled else 1)
            for number in range(6):
                start = f"2026010{day}T0000{number:02}Z"
                cells = {(20.0, qos): simulated_cell(rng, 4, 100, o_us, 4280, 0.1) for qos in (0, 1)}
                settings = {"broker": broker, "load": load}
                with edited(write_run(results, scenario, start=start, cells=cells, parameters=settings)) as run:
                    run["environment"]["versions"] = {"broker": "4.0.5" if broker == "rabbitmq" else "2.0.21"}
    write_study(results)
    assert write(results, out) == 0
    table = rows(out / "loop-cells.csv")
    assert len(table) == len(levels_us) * 2 * 2
    for row in table:
        broker = row["factors"].removeprefix("BROKER=") or "mosquitto"
        factor = 2 if (broker, row["scenario"]) == doubled else 1
        assert float(row["O_mean_us"]) == pytest.approx(levels_us[broker] * factor, rel=0.1)
        assert len(row["run_id"].split()) == 6
    words = " ".join(Page(out / "index.html").words)
    _, _, after = words.partition("A finding that another broker shows as well is not.")
    line = after.partition("CPU stress raises O")[2].partition("CPU stress raises O, without Arduino")[0]
    assert "differs" in line.partition("corrected")[0]
    assert "thesis, BROKER=rabbitmq" in words
    # The thesis's own tables and verdicts are of its broker.
    asked = {"claim": "stress", "fidelity": "thesis", "figure": "O mean"}
    verdict = next(row for row in rows(out / "verdicts.csv") if asked.items() <= row.items())
    assert float(verdict["value"]) == pytest.approx(1.0, abs=0.15)
    key = {"scenario": "scenario1", "interval_ms": "20", "qos": "0", "metric": "O"}
    cell = next(row for row in rows(out / "tables.csv") if key.items() <= row.items())
    assert float(cell["mean_us"]) == pytest.approx(900, rel=0.1)


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ((REPRODUCED, REPRODUCED, NO_VERDICT), "alike"), ((REPRODUCED, NOT_REPRODUCED), "differs"),
        ((REPRODUCED, NO_VERDICT, UNDECIDED), ""), ((NO_VERDICT, NO_VERDICT), ""),
    ],
)  # fmt: skip
def test_a_broker_without_a_verdict_shares_no_finding(outcomes: tuple[str, ...], expected: str) -> None:
    assert whose({str(at): Verdict(outcome, "") for at, outcome in enumerate(outcomes)}) == expected


def test_lost_messages_have_causes_and_stand_in_response_and_curve(results: Path) -> None:
    """A run of scenario 0 at 20 and 10 ms; at 10 ms 10 of 100 were lost, 8 of them merged."""
    rng = np.random.default_rng(1)
    cells = {(i, 0): simulated_cell(rng, 4, 25, 900, 70) for i in (20.0, 10.0)}
    with edited(write_run(results, "scenario0", cells=cells, lost={(10.0, 0): 10})) as run:
        losing = next(cell for cell in run["cells"] if cell["interval_ms"] == 10)
        losing["lost_by"] = {"merged": 8, "disconnected": 0, "unknown": 2}
        losing["response_us"] = summarise([1_000_000] * 90 + [np.inf] * 10)
    found = shown(results)
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", found.text))
    assert "10 lost (8 merged, 2 unknown)" in text
    row = text[text.index(" response –") :]
    assert row.startswith(" response – – – 10.0 % beyond an interval 1.000 ∞ ∞ – 1.000 ∞ ∞ "), row[:120]
    # The curve is of all messages sent: it ends at 95 %, as in Grafana.
    curve = curve_of(found.measured[0], "O")
    assert curve is not None
    assert curve.values_us.size == sum(own.size for own in curve.by_repetition) == 200
    assert np.isfinite(curve.values_us).mean() == pytest.approx(0.95)
    assert curve.below(0.99) == "not all answered"


def test_cells_are_of_all_runs_and_notes_of_the_newest(results: Path) -> None:
    """Runs in which answers queued at the robot, and the sender was late."""
    for day, max_us in enumerate((300_000, 10, 10, 200_000), 1):
        lateness = {**summarise([1000]), "n": 200, "avg": 10.0, "p99": max_us / 2, "max": max_us}
        cells = {(20.0, 0): simulated_cell(np.random.default_rng(day), 10, 20, 900, 4290)}
        with edited(write_run(results, "scenario1", start=f"202601{day:02}T000000Z", cells=cells)) as run:
            free = {**lateness, "n": 100 * day, "avg": 100.0 * day, "max": 1000.0 * day}
            more = {"late_because": "scheduler"} if max_us > 100_000 else {}
            run["cells"][0] |= {"send_lateness_us": lateness, "service_R_us": free, "waited": day, **more}
    report = shown(results)
    (cell,) = report.measured[0].cells.values()
    assert cell.send_lateness["max"] == 300_000
    assert (cell.free_R["n"], cell.free_R["avg"], cell.free_R["max"]) == (1000, 300.0, 4000.0)
    (late_sender,) = (note for note in report.context["notes"] if "The sender was late" in note)
    assert late_sender.startswith("scenario1 (thesis) (newest of 4 runs): ")


# Averages in us of two cells, by part; they add up to 1000 and 2000.
PARTS_US = {20.0: (50, 300, 100, 30, 520), 10.0: (60, 900, 200, 40, 800)}


def test_the_bar_is_the_mean_over_all_messages(results: Path, tmp_path: Path) -> None:
    """Two runs of which one has a ledger: of 300 and 100 messages of 400 a cell."""
    rng = np.random.default_rng(4)
    # The thesis has no figure of these, so that no other is drawn.
    for number in (7, 8):
        cells = {(interval, 0): simulated_cell(rng, 4, 100, 800, 4280) for interval in PARTS_US}
        folder = write_run(results, f"scenario{number}", start=f"2026010{number}T000000Z", cells=cells)
    with edited(folder) as run:
        for cell in run["cells"]:
            count = 300 if cell["interval_ms"] == 20 else 100
            own = zip(NAMES, PARTS_US[cell["interval_ms"]], strict=True)
            cell["ledger_us"] = {name: summarise([us * 1000] * count) for name, us in own}
    assert write(results, tmp_path / "out") == 0
    page = Page(tmp_path / "out/index.html")
    (told,) = [text for text in page.alternatives if text.startswith("Stacked bars")]
    assert "scenario 8: mean O 1.25 ms, of it controller's send path 0.0525 ms, controller's wake-up 0.45 ms" in told
    assert "scenario 7" not in told
    words = " ".join(page.words)
    assert "Messages with an unknown part: scenario 8 400 of 800." in words
    assert "What is O made of?" in words
    assert (tmp_path / "out/figures/figure_makeup_thesis.svg").read_bytes().startswith(b"<?xml")


def test_a_pooled_cell_has_the_parts_and_waits_of_all_runs(results: Path) -> None:
    """Parts by messages, waits as a sum; the newest run alone has 520 us of network and waited for 5 us."""
    rng = np.random.default_rng(5)
    for number, (network_us, count, wait_us) in enumerate([(920, 300, 70.0), (520, 100, 5.0)]):
        cells = {(20.0, 0): simulated_cell(rng, 4, 100, 800, 4280)}
        with edited(write_run(results, "scenario1", start=f"2026010{number + 1}T000000Z", cells=cells)) as run:
            (cell,) = run["cells"]
            parts_us = {**dict(zip(NAMES, PARTS_US[20.0], strict=True)), "network": network_us}
            parts_us["O"] = sum(parts_us.values())
            cell["ledger_us"] = {name: summarise([us * 1000] * count) for name, us in parts_us.items()}
            cell["cpu_wait_us"] = {"broker": wait_us}
    (measured,) = shown(results).measured
    (pooled,) = measured.cells.values()
    assert (pooled.sent, pooled.cpu_wait) == (800, {"broker": 75.0})
    assert {name: pooled.ledger[name]["n"] for name in ("network", "O")} == {"network": 400, "O": 400}
    assert pooled.ledger["network"]["avg"] == pytest.approx(820)
    assert check_ledger({"ledger_us": pooled.ledger})
