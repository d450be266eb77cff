"""The report on an application of one's own: a load is judged by p99 of T, by run."""

from pathlib import Path

import pandas as pd
import pytest
from support.reports import shown
from support.run_files import edited, write_study
from support.spec_runs import make_runs

from looplab.report.cell import STATISTICS
from looplab.report.verdicts import NO_PLAN, NOT_REPRODUCED, NOT_RUN, REPRODUCED


def lengthen(folder: Path, times: float) -> None:
    """Make T of a stored run so many times as long."""
    samples = pd.read_csv(folder / "samples.csv", dtype={"sequence": "Int64"})
    samples["total_us"] = (samples["total_us"] * times).round(3)
    samples.to_csv(folder / "samples.csv", index=False)
    values = samples["total_us"].dropna().sort_values().to_numpy()
    with edited(folder) as run:
        run["cells"][0]["T_us"] |= {name: float(one(values)) for name, one in STATISTICS.items()}


@pytest.mark.parametrize(("times", "outcome"), [(100, REPRODUCED), (0.01, NOT_REPRODUCED)])
def test_a_load_that_lengthens_t_is_seen(tmp_path: Path, times: float, outcome: str) -> None:
    for _round in range(6):
        lengthen(make_runs(tmp_path, "./lab run own-stress own --quick")[0], times)
    assert shown(tmp_path, "own").verdict("own-stress").because == NO_PLAN
    write_study(tmp_path, twice=True)
    found = shown(tmp_path, "own")
    verdict = found.verdict("own-stress")
    assert verdict.outcome == outcome, verdict.reason
    # The simulated runs themselves differ by some factor.
    assert times / 4 < 1 + verdict.share.estimate < 4 * times
    assert verdict.notes[0].startswith("It changes by +" if times > 1 else "It changes by −")
    assert found.verdict("own-flood").because == NOT_RUN
