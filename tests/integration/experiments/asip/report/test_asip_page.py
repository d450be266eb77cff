"""The page of the report on asip: whole, published figures beside measured ones."""

import re
from pathlib import Path

from support.reports import Page, rows, shown, write
from support.simulated_asip_runs import write_latency_run, write_throughput_run


def test_the_page_is_whole_and_sets_both_beside_each_other(tmp_path: Path) -> None:
    results, out = tmp_path / "results", tmp_path / "out"
    write_latency_run(results)
    write_throughput_run(results)
    assert write(results, out) == 0
    page = Page(out / "asip.html")
    # The overview, four figures, latencies, tracked share, three pictures of the oscilloscope.
    assert len(page.alternatives) == 10
    text = " ".join(" ".join(page.words).split())
    assert "MacBook Pro 200 80 80 90 80 50" in text
    assert re.search(r"here: one machine 3\.38 3\.63 3\.83 3\.48 3\.73 3\.93", text)
    assert "RPi 2, MacBook broker – – 38.40 – – 45.00" in text
    found = rows(out / "asip-cells.csv")
    assert len(found) == 12
    assert {row["finding"] for row in rows(out / "asip-findings.csv")} == set(shown(results, "asip").verdicts)
