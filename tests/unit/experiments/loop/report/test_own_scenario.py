"""A claim about a scenario of one's own: a row of claims.csv more, as a student adds it."""

from pathlib import Path

import numpy as np
import pytest
from support.reports import Page, write
from support.simulated_runs import simulated_cell, write_run

from looplab.experiments.loop.report import analysis
from looplab.experiments.loop.report.claims import claim, claims
from looplab.report.claims import Row


def test_a_claim_about_an_own_scenario_is_on_the_page(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    for scenario in ("scenario1", "calm"):
        write_run(results, scenario, cells={(20.0, 0): simulated_cell(rng, 3, 20, 900, 4290)})
    row = Row("calm", "Calm raises O", "scenario1; calm", figure="O mean", what="O", rule="higher", about="load")
    monkeypatch.setattr(analysis, "claims", lambda: [*claims(), claim(row)])
    assert write(results, tmp_path / "report") == 0
    words = " ".join(Page(tmp_path / "report/index.html").words)
    assert "scenario1 (Arduino 57600 bps) against calm" in words
