"""What the report shows of cells: latencies, causes of losses, what O is made of, what is fitted, oddities of runs."""

import re
from pathlib import Path

import numpy as np
import pytest
from support.reports import Page, Shown, shown, write
from support.run_checks import check_ledger
from support.run_files import edited
from support.simulated_runs import simulated_cell, write_run

from looplab.experiments.loop.ledger import NAMES
from looplab.experiments.loop.report.figures import curve_of
from looplab.run.accounting import summarise


def loop(results: Path) -> Shown:
    """A run of scenario 0 at 20 and 10 ms; at 10 ms 10 of 100 were lost, 8 of them merged."""
    rng = np.random.default_rng(1)
    cells = {(i, 0): simulated_cell(rng, 4, 25, 900, 70) for i in (20.0, 10.0)}
    with edited(write_run(results, "scenario0", cells=cells, lost={(10.0, 0): 10})) as run:
        losing = next(cell for cell in run["cells"] if cell["interval_ms"] == 10)
        losing["lost_by"] = {"merged": 8, "disconnected": 0, "unknown": 2}
        losing["response_us"] = summarise([1_000_000] * 90 + [np.inf] * 10)
    return shown(results)


def test_causes_and_endless_response_stand_in_the_table(results: Path) -> None:
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", loop(results).text))
    assert "10 lost (8 merged, 2 unknown)" in text
    row = text[text.index(" response –") :]
    assert row.startswith(" response – – – 10.0 % beyond an interval 1.000 ∞ ∞ – 1.000 ∞ ∞ "), row[:120]


def test_a_curve_is_of_all_messages_sent(results: Path) -> None:
    """10 of 200 are lost: the curve ends at 95 %, as in Grafana."""
    (measured,) = loop(results).measured
    curve = curve_of(measured, "O")
    assert curve is not None
    assert curve.values_us.size == sum(own.size for own in curve.by_repetition) == 200
    assert np.isfinite(curve.values_us).mean() == pytest.approx(0.95)
    assert curve.below(0.99) == "not all answered"


def late(results: Path, day: int, max_us: float) -> None:
    """A run of which the answers of one cell queued at the robot, and the sender was late."""
    lateness = {
        "n": 200, "min": 1.0, "avg": 10.0, "p50": 2.0, "p95": 3.0, "p99": max_us / 2, "p999": 4.0, "max": max_us,
    }  # fmt: skip
    cells = {(20.0, 0): simulated_cell(np.random.default_rng(day), 10, 20, 900, 4290)}
    with edited(write_run(results, "scenario1", start=f"202601{day:02}T000000Z", cells=cells)) as run:
        free = {**lateness, "n": 100 * day, "avg": 100.0 * day, "max": 1000.0 * day}
        more = {"late_because": "scheduler"} if max_us > 100_000 else {}
        run["cells"][0] |= {"send_lateness_us": lateness, "service_R_us": free, "waited": day, **more}


def test_cells_are_of_all_runs_and_notes_of_the_newest(results: Path) -> None:
    for day, max_us in enumerate((300_000, 10, 10, 200_000), 1):
        late(results, day, max_us)
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
