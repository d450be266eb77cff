"""The figure “What is O made of?”: the averages of run.json, weighted by messages; none for runs without a ledger."""

from pathlib import Path

import numpy as np
import pytest
from support.reports import Page, shown, write
from support.run_checks import check_ledger
from support.run_files import edited
from support.simulated_runs import simulated_cell, write_run

from looplab.experiments.loop.ledger import NAMES
from looplab.run.accounting import summarise

# Averages in us of two cells, by part; they add up to 1000 and 2000.
PARTS_US = {20.0: (50, 300, 100, 30, 520), 10.0: (60, 900, 200, 40, 800)}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Two runs of which one has a ledger: of 300 and 100 messages of 400 a cell."""
    found, rng = tmp_path / "results", np.random.default_rng(4)
    # The thesis has no figure of these, so that no other is drawn.
    for number in (7, 8):
        cells = {(interval, 0): simulated_cell(rng, 4, 100, 800, 4280) for interval in PARTS_US}
        folder = write_run(found, f"scenario{number}", start=f"2026010{number}T000000Z", cells=cells)
    with edited(folder) as run:
        for cell in run["cells"]:
            count = 300 if cell["interval_ms"] == 20 else 100
            own = zip(NAMES, PARTS_US[cell["interval_ms"]], strict=True)
            cell["ledger_us"] = {name: summarise([us * 1000] * count) for name, us in own}
    return found


def test_the_bar_is_the_mean_over_all_messages(results: Path, tmp_path: Path) -> None:
    assert write(results, tmp_path / "out") == 0
    page = Page(tmp_path / "out/index.html")
    (told,) = [text for text in page.alternatives if text.startswith("Stacked bars")]
    assert "scenario 8: mean O 1.25 ms, of it controller's send path 0.0525 ms, controller's wake-up 0.45 ms" in told
    assert "scenario 7" not in told
    words = " ".join(page.words)
    assert "Messages with an unknown part: scenario 8 400 of 800." in words
    assert "What is O made of?" in " ".join(page.words)
    assert (tmp_path / "out/figures/figure_makeup_thesis.svg").read_bytes().startswith(b"<?xml")


def test_a_pooled_cell_has_the_parts_and_waits_of_all_runs(tmp_path: Path) -> None:
    """Parts by messages, waits as a sum; the newest run alone has 520 us of network and waited for 5 us."""
    found, rng = tmp_path / "results", np.random.default_rng(5)
    for number, (network_us, count, wait_us) in enumerate([(920, 300, 70.0), (520, 100, 5.0)]):
        cells = {(20.0, 0): simulated_cell(rng, 4, 100, 800, 4280)}
        with edited(write_run(found, "scenario1", start=f"2026010{number + 1}T000000Z", cells=cells)) as run:
            (cell,) = run["cells"]
            parts_us = {**dict(zip(NAMES, PARTS_US[20.0], strict=True)), "network": network_us}
            parts_us["O"] = sum(parts_us.values())
            cell["ledger_us"] = {name: summarise([us * 1000] * count) for name, us in parts_us.items()}
            cell["cpu_wait_us"] = {"broker": wait_us}
    (measured,) = shown(found).measured
    (pooled,) = measured.cells.values()
    assert (pooled.sent, pooled.cpu_wait) == (800, {"broker": 75.0})
    assert {name: pooled.ledger[name]["n"] for name in ("network", "O")} == {"network": 400, "O": 400}
    assert pooled.ledger["network"]["avg"] == pytest.approx(820)
    assert check_ledger({"ledger_us": pooled.ledger})
