"""./lab report as the process in its image: what it prints, its exit code, what it leaves."""

import os
import subprocess
import sys
from pathlib import Path

from support.places import ROOT


def lab(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "looplab.lab.cli", *words],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "LAB_ROOT": str(root), "LOOPLAB_INSIDE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_missing_run_is_named_and_no_report_is_left(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    done = lab(tmp_path, "report", "20260101T000000Z-scenario5")
    assert done.returncode == 2
    assert "There is no run '20260101T000000Z-scenario5'" in done.stderr
    assert not (tmp_path / "report").exists()
    empty = lab(tmp_path, "report")
    assert empty.returncode == 1
    assert "0 runs" in empty.stdout
