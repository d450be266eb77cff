"""What the tables of the report show beside latencies: causes of losses, response, what is fitted."""

import re
from pathlib import Path

import numpy as np
import pytest
from support.reports import Shown, shown
from support.run_files import edited
from support.simulated_runs import simulated_cell, write_run

from looplab.experiments.loop.report.figures import curve_of
from looplab.run.accounting import summarise


def loop(results: Path, **parameters: str) -> Shown:
    """A run of scenario 0 at 20 and 10 ms; at 10 ms 10 of 100 were lost, 8 of them merged."""
    rng = np.random.default_rng(1)
    cells = {(i, 0): simulated_cell(rng, 4, 25, 900, 70) for i in (20.0, 10.0)}
    with edited(write_run(results, "scenario0", cells=cells, lost={(10.0, 0): 10}, parameters=parameters)) as run:
        losing = next(cell for cell in run["cells"] if cell["interval_ms"] == 10)
        losing["lost_by"] = {"merged": 8, "disconnected": 0, "unknown": 2}
        losing["response_us"] = summarise([1_000_000] * 90 + [np.inf] * 10)
    return shown(results)


def visible(report: Shown) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", report.text))


def test_causes_and_endless_response_stand_in_the_table(results: Path) -> None:
    text = visible(loop(results))
    assert "10 lost (8 merged, 2 unknown)" in text
    row = text[text.index(" response –") :]
    assert row.startswith(" response – – – 10.0 % beyond an interval 1.000 ∞ ∞ – 1.000 ∞ ∞ "), row[:120]


def test_a_link_is_fitted_to_two_cells(results: Path) -> None:
    report = loop(results, link="wifi")
    text = visible(report)
    assert "T fitted" in text
    standing = {row.standing for _, tables in report.context["tables"] for t in tables.values() for row in t.rows}
    # The delay to the cell at 20 ms, its deviation to that at 10 ms.
    assert standing == {"fitted", ""}
    assert "Fitted: The delay of LINK=wifi is fitted to the published mean of O in scenario 0 at 20 ms" in text
    assert "R fitted" not in text


def test_nothing_is_called_fitted_where_nothing_was(results: Path) -> None:
    report = loop(results, link="none")
    assert all(not row.standing for _, tables in report.context["tables"] for t in tables.values() for row in t.rows)


def test_merged_messages_do_not_count_as_undelivered(results: Path) -> None:
    (measured,) = loop(results).measured
    names = ("answered_share", "delivered_share", "beyond_interval")
    assert [measured.cells[10.0, 0].figure(name) for name in names] == [0.9, 0.98, 0.1]


def test_a_curve_is_of_all_messages_sent(results: Path) -> None:
    """10 of 200 are lost: the curve ends at 95 %, as in Grafana."""
    (measured,) = loop(results).measured
    curve = curve_of(measured, "O")
    assert curve is not None
    assert curve.count == 200
    assert curve.share[-1] == pytest.approx(0.95)
    assert curve.low[-1] <= curve.high[-1] <= 1
    assert curve.below(0.99) == "not all answered"


def test_several_runs_have_the_causes_of_all(results: Path) -> None:
    cells = {(10.0, 0): simulated_cell(np.random.default_rng(1), 4, 25, 900, 70)}
    for number in (1, 2):
        with edited(
            write_run(results, "scenario0", start=f"2026010{number}T000000Z", cells=cells, lost={(10.0, 0): 3})
        ) as run:
            run["cells"][0]["lost_by"] = {"merged": 1, "disconnected": 0, "expired": 2, "unknown": 0}
    (measured,) = shown(results).measured
    assert measured.cells[10.0, 0].causes == "2 merged, 4 expired"


def test_p99_of_a_hundred_messages_is_marked(results: Path) -> None:
    report = loop(results)
    cell = report.measured[0].cells[20.0, 0]
    assert [cell.unsure("O", name) for name in ("p50", "p95", "p99", "avg")] == ["", "", "~", ""]
    assert "~ stands before a quantile beyond which fewer than five messages of a run lie." in visible(report)
    assert re.search(r"<td>~[0-9]", report.text)
