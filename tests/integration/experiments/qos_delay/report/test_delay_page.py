"""The page of the report on network delay and QoS: whole, beside that of the loop, and it needs nothing else."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from support.reports import Page, rows, write
from support.simulated_delay_runs import SYMMETRICAL, one_way, write_delay_run
from support.simulated_runs import write_run
from support.terminal import printing_to_a_terminal


def test_the_page_is_whole_and_asks_for_nothing(tmp_path: Path) -> None:
    results, out = tmp_path / "results", tmp_path / "out"
    write_delay_run(results)
    write_delay_run(results, start="20260101T000000Z")
    unread = write_delay_run(results, fidelity="corrected", start="20260202T000000Z", ratio=one_way)
    (unread / "samples.csv").write_text("nothing\n")
    with printing_to_a_terminal() as said:
        assert write(results, out) == 0
    page = Page(out / "qos-delay.html")
    assert len(page.alternatives) == 5
    assert all("QoS 2" in alternative for alternative in page.alternatives)
    assert "2 run(s)" in page.text or len(re.findall("<summary>2026", page.text)) == 2
    assert re.search(r"20260202T000000Z-qos-delay</th><td[^>]*>damaged</td><td[^>]*>samples.csv cannot be", page.text)
    assert {path.suffix for path in (out / "figures").iterdir()} == {".svg", ".png"}
    assert len(rows(out / "qos-delay-cells.csv")) == 30
    assert len({row["finding"] for row in rows(out / "qos-delay-findings.csv")}) == 8
    *lines, path = said.getvalue().splitlines()
    assert any(line.startswith("not used: 20260202T000000Z-qos-delay") for line in lines)
    assert max(map(len, lines)) <= 80
    assert path == str(out / "qos-delay.html")


def test_both_reports_have_their_own_runs_each_read_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    read_text, names_read = Path.read_text, []

    def counting(path: Path, **options: str) -> str:
        names_read.append(path.name)
        return read_text(path, **options)

    monkeypatch.setattr(Path, "read_text", counting)
    results, out = tmp_path / "results", tmp_path / "report"
    folder = write_delay_run(results, pairs=SYMMETRICAL[:1])
    assert write(results, out) == 0
    assert (out / "qos-delay.html").is_file()
    assert not (out / "index.html").exists()
    # The thesis has no figure of it, so that nothing is drawn.
    loop = write_run(results, "scenario7", cells={(20.0, 0): (np.full((3, 20), 900.0), np.full((3, 20), 100.0))})
    for named in ([], [loop.name, folder.name]):
        shutil.rmtree(out)
        names_read.clear()
        assert write(results, out, *named) == 0
        assert names_read.count("run.json") == 2
        assert (out / "index.html").is_file()
        assert (out / "qos-delay.html").is_file()
        assert {row["run_id"] for row in rows(out / "runs.csv")} == {loop.name, folder.name}
        claims = {path.name for path in (out / "figures").glob("*claims.svg")}
        assert claims == {"loop_claims.svg", "qos_delay_claims.svg"}
        apart = capsys.readouterr().out.count("apart: 1 run(s) of the experiment qos-delay, left to its own report.")
        assert apart == (not named)
