"""The page of the report on twin: whole, and it needs nothing else."""

from pathlib import Path
from typing import Any

from support.reports import Page, rows, write
from support.simulated_twin_runs import (
    CAUSES,
    PUBLISHED_S,
    Truth,
    experiment_1,
    write_brokers,
    write_twin_run,
)

from looplab.experiments.twin import TwinCell


def test_the_page_is_whole_and_asks_for_nothing(tmp_path: Path) -> None:
    results, out = tmp_path / "results", tmp_path / "out"
    write_twin_run(results, [*experiment_1(), *CAUSES[1:]])
    write_brokers(results, 0.01, 0.01, start="20260502T000000Z")
    found: dict[str, Any] = {"limit_per_s": 9000.0, "limited_by": "fsync", "evidence": {"fsync": 0.97}}
    limit = Truth(TwinCell.keyed(0.111, 2, "central", "copy", 1, 0), PUBLISHED_S, more=found)
    write_twin_run(results, [limit], scenario="twin-limit", start="20260503T000000Z")
    write(results, out)
    text = Page(out / "twin.html").text
    for title in ("Figure 1: the queue over time", "Figures 2 and 3", "the highest sustained rate"):
        assert title in text
    assert "the commit to disk" in text
    assert len(rows(out / "twin-cells.csv")) == 11 + 25 + 1
    assert {row["finding"] for row in rows(out / "twin-findings.csv")} >= {"fifteen", "limit"}
    assert len(rows(out / "twin-brokers.csv")) == 11 + 5 * 13 + 2
    for name in ("1", "causes", "2", "3", "limits"):
        assert (out / f"figures/twin_figure_{name}_thesis.svg").is_file()
