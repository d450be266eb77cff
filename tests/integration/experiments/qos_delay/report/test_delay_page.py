"""Two reports in one go."""

import shutil
from pathlib import Path

import numpy as np
from support.reports import write
from support.simulated_delay_runs import SYMMETRICAL, write_delay_run
from support.simulated_runs import write_run
from support.tables import rows


def test_both_reports_have_their_own_runs(tmp_path: Path) -> None:
    results, out = tmp_path / "results", tmp_path / "report"
    folder = write_delay_run(results, pairs=SYMMETRICAL[:1])
    assert write(results, out) == 0
    assert (out / "qos-delay.html").is_file()
    assert not (out / "index.html").exists()
    # The thesis has no figure of it, so that nothing is drawn.
    loop = write_run(results, "scenario7", cells={(20.0, 0): (np.full((3, 20), 900.0), np.full((3, 20), 100.0))})
    for named in ([], [loop.name, folder.name]):
        shutil.rmtree(out)
        assert write(results, out, *named) == 0
        assert (out / "index.html").is_file()
        assert (out / "qos-delay.html").is_file()
        assert {row["run_id"] for row in rows(out / "runs.csv")} == {loop.name, folder.name}
        # One run of scenario 7 measured no change that could be drawn.
        assert {path.name for path in (out / "figures").glob("*claims.svg")} == {"qos_delay_claims.svg"}
