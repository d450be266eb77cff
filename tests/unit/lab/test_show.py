"""./lab show: which run is meant, and what it prints."""

import json
import shutil
from pathlib import Path

import pytest
from support.places import ROOT

from looplab.errors import UsageError
from looplab.lab.commands.show import show


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("20260101T000000Z-scenario1", "20260102T000000Z-scenario2"):
        folder = tmp_path / "results" / name
        folder.mkdir(parents=True)
        run = json.loads((ROOT / "tests/support/sample_runs/loop.json").read_text())
        (folder / "run.json").write_text(json.dumps({**run, "run_id": name, "scenario": name.partition("-")[2]}))
    return tmp_path


def test_a_run_is_named_by_folder_or_scenario(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    older, newer = "20260101T000000Z-scenario1", "20260102T000000Z-scenario2"
    for word, shown in (("", newer), ("scenario1", older), (f"results/{older}/", older)):
        assert show(root, word, treatments=False) == 0
        out = capsys.readouterr().out
        assert f"run {shown}" in out
        assert "send lateness" in out


def test_a_run_that_is_not_there_is_named_with_the_newest(root: Path) -> None:
    with pytest.raises(UsageError, match="no run 'scenario7'") as error:
        show(root, "scenario7", treatments=False)
    assert "20260102T000000Z-scenario2" in error.value.remedy
    shutil.rmtree(root / "results")
    with pytest.raises(UsageError, match="no run in"):
        show(root, "", treatments=False)
