"""The report on balance: theory is judged by cells of known truth, and a treatment by its cost, by run."""

from pathlib import Path

import numpy as np
import pytest
from support.reports import shown
from support.run_files import edited, write_study
from support.simulated_balance_runs import write_balance_run

from looplab.experiments.balance import EXPERIMENT
from looplab.report.verdicts import NO_PLAN, NOT_REPRODUCED, REPRODUCED, UNDECIDED


def test_qualities_of_service_are_compared_within_a_run(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    for at in range(6):
        start = f"20260101T{at:06d}Z"
        folder = write_balance_run(tmp_path, "balance-scenario8", start=start, intervals="20", qos="0,2")
        with edited(folder) as stored:
            for cell, cost in zip(stored["cells"], (0.1, 0.2), strict=True):
                cell["cost"] = cost * rng.uniform(0.98, 1.02)
    assert shown(tmp_path, "balance").verdict("balance-qos-2").because == NO_PLAN
    write_study(tmp_path)
    verdict = shown(tmp_path, "balance").verdict("balance-qos-2")
    assert verdict.outcome == REPRODUCED, verdict.reason
    assert "published" not in verdict.reason


@pytest.mark.parametrize(("times", "arm", "outcome"), [(2, 1, REPRODUCED), (1, 1, NOT_REPRODUCED), (2, 2, UNDECIDED)])
def test_live_runs_of_a_study_give_a_verdict(tmp_path: Path, times: float, arm: int, outcome: str) -> None:
    """Scenario 2 costs `times` as much and falls earlier. Its second arm costs as much as its first, or twice that."""
    rng = np.random.default_rng(5)
    for at in range(16):
        for scenario, factor in (("balance-scenario1", 1.0), ("balance-scenario2", times)):
            factor *= rng.uniform(0.98, 1.02) * arm ** (at % 2)
            start = f"20260101T00{at:04d}Z"
            with edited(write_balance_run(tmp_path, scenario, start=start, intervals="20")) as stored:
                stored["cells"][0] |= {"cost": 0.1 * factor, "upright_s": 60 / factor}
    assert shown(tmp_path, "balance").verdict("balance-stress").because == NO_PLAN
    write_study(tmp_path, twice=True)
    found = shown(tmp_path, "balance")
    for verdict in (found.verdict("balance-stress"), found.verdict("balance-stress-stands")):
        assert verdict.outcome == outcome, verdict.reason
        assert "two arms of balance-scenario1" in verdict.notes[0]
    assert EXPERIMENT.studies.keys() < found.verdicts.keys()


def test_theory_is_judged_by_several_runs(tmp_path: Path) -> None:
    for second in range(5):
        write_balance_run(tmp_path, start=f"20260101T00000{second}Z")
    assert shown(tmp_path, "balance").verdict("theory").because == NO_PLAN
    write_study(tmp_path)
    found = shown(tmp_path, "balance")
    assert len(found.measured[0].runs) == 5
    assert found.verdict("theory").outcome == REPRODUCED, found.verdict("theory").reason
