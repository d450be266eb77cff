"""The report on network delay and QoS: verdicts on runs of known truth, a page that needs nothing else."""

from __future__ import annotations

import csv
import re
import shutil
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from support.simulated_delay_runs import SYMMETRICAL, as_published, one_way, write_delay_run
from support.simulated_runs import write_run
from support.terminal import printing_to_a_terminal

from looplab.experiments.loop.report.claims import NO_RUN, NOT_REPRODUCED, REPRODUCED, UNDECIDED
from looplab.experiments.qos_delay.report.command import write_delay_report
from looplab.experiments.qos_delay.report.findings import Finding, causes, judge, questions
from looplab.experiments.qos_delay.report.runs import DelayRun, is_delay_run, read, select
from looplab.lab.commands.report import report
from looplab.report.stored import read_document


def verdicts(run: DelayRun) -> dict[str, Finding]:
    return {question.name: judge(question, run) for question in questions()}


def stored(folder: Path) -> DelayRun:
    found = read(folder)
    assert isinstance(found, DelayRun), found
    return found


def test_a_run_like_the_published_one_reproduces_every_finding(tmp_path: Path) -> None:
    found = verdicts(stored(write_delay_run(tmp_path)))
    assert {name: finding.outcome for name, finding in found.items()} == dict.fromkeys(found, REPRODUCED)


def test_without_nagle_no_round_trip_and_no_aggregation(tmp_path: Path) -> None:
    run = stored(write_delay_run(tmp_path, fidelity="corrected", ratio=one_way, packets=lambda _p, _b, _q: 1.0))
    found = verdicts(run)
    assert found["one-way-when-short"].outcome == found["place"].outcome == REPRODUCED
    for name in ("round-trip-beyond", "qos-2-average", "qos-2-most", "aggregation-grows", "segment-size"):
        assert found[name].outcome == NOT_REPRODUCED, name


def test_the_ratio_is_that_of_the_delay_that_was_made(tmp_path: Path) -> None:
    # The emulator made 44 ms where 40 were asked for: the ratio is of what was made.
    made = {"end_to_end_ms": {"pb": 22.0, "bs": 22.0, "total": 44.0}}
    run = stored(write_delay_run(tmp_path, cell_changes={(20, 20, 0): made}))
    cell = run.cells[20.0, 20.0, 0]
    assert cell.ratio.estimate == pytest.approx(2 * 40 / 44, rel=0.02)
    assert cell.ratio.low < cell.ratio.estimate < cell.ratio.high
    assert cell.mean_us.estimate == pytest.approx(80_000, rel=0.02)


def test_a_place_that_matters_is_seen(tmp_path: Path) -> None:
    def placed(pb: float, bs: float, qos: int) -> float:
        return as_published(pb, bs, qos) * (2 if pb > bs else 1)

    found = verdicts(stored(write_delay_run(tmp_path, ratio=placed)))
    assert found["place"].outcome == NOT_REPRODUCED


def test_aggregation_by_qos_and_without_growth(tmp_path: Path) -> None:
    run = stored(write_delay_run(tmp_path, packets=lambda _p, _b, qos: 1.0 + qos))
    found = verdicts(run)
    assert found["aggregation-qos"].outcome == NOT_REPRODUCED
    assert found["aggregation-grows"].outcome == NOT_REPRODUCED


def test_too_few_cells_and_too_short_ones_decide_nothing(tmp_path: Path) -> None:
    # 250 messages are 2.5 s: fewer blocks than an interval needs, so each cell stands on its estimate alone.
    run = stored(write_delay_run(tmp_path, pairs=SYMMETRICAL[:2], messages=150))
    found = verdicts(run)
    assert found["place"].outcome == NO_RUN
    assert found["aggregation-grows"].outcome == UNDECIDED
    assert not run.cells[2.0, 2.0, 0].ratio.known


def test_an_invalid_cell_is_left_out_and_an_invalid_run_says_so(tmp_path: Path) -> None:
    broken = {"valid": False, "invalid_because": ["the emulator was gone"]}
    folder = write_delay_run(
        tmp_path,
        ratio=lambda pb, bs, qos: 9.0 if (pb, bs, qos) == (60, 60, 2) else as_published(pb, bs, qos) * 0.8,
        cell_changes={(60, 60, 2): broken},
        changes={"valid": False, "invalid_because": ["60 + 60 ms: the emulator was gone"]},
    )
    finding = verdicts(stored(folder))["qos-2-most"]
    assert finding.outcome == NOT_REPRODUCED
    assert "INVALID" in finding.beside[0]


def test_nagle_stands_beside_the_findings_that_it_makes(tmp_path: Path) -> None:
    runs = {
        "thesis": stored(write_delay_run(tmp_path)),
        "corrected": stored(
            write_delay_run(
                tmp_path, fidelity="corrected", start="20260202T000000Z", ratio=one_way, packets=lambda _p, _b, _q: 1.0
            )
        ),
    }
    found = {q.name: {fidelity: judge(q, run) for fidelity, run in runs.items()} for q in questions()}
    causes(runs, found)
    assert "Nagle" in found["round-trip-beyond"]["thesis"].beside[0]
    assert "3.00" in found["qos-2-average"]["thesis"].beside[0]


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.alternatives: list[str | None] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        held = dict(attrs)
        self.links += [held[name] or "" for name in ("src", "href") if name in held]
        self.ids += [held["id"] or ""] if "id" in held else []
        self.alternatives += [held.get("alt")] if tag == "img" else []


def test_the_page_is_whole_and_asks_for_nothing(tmp_path: Path) -> None:
    results, out = tmp_path / "results", tmp_path / "out"
    folders = [
        write_delay_run(results),
        write_delay_run(results, start="20260101T000000Z"),
        write_delay_run(results, fidelity="corrected", start="20260202T000000Z", ratio=one_way),
    ]
    (folders[2] / "samples.csv").write_text("nothing\n")
    with printing_to_a_terminal() as said:
        assert write_delay_report(folders, out)
    text = (out / "qos-delay.html").read_text()
    page = Page(text)
    assert all(link.startswith(("#", "data:")) for link in page.links)
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)
    assert len(page.alternatives) == 4
    assert all(alternative and "QoS 2" in alternative for alternative in page.alternatives)
    assert "a newer run of the same fidelity is used" in text
    assert re.search(r"20260202T000000Z-qos-delay \(damaged\): samples.csv cannot be read", text)
    assert {path.suffix for path in (out / "figures").iterdir()} == {".svg", ".png"}
    with (out / "qos-delay-cells.csv").open() as file:
        cells = list(csv.DictReader(file))
    assert len(cells) == 30
    *lines, path = said.getvalue().splitlines()
    assert any(line.startswith("not used: 20260202T000000Z-qos-delay") for line in lines)
    assert max(map(len, lines)) <= 80
    assert path == str(out / "qos-delay.html")


@pytest.mark.parametrize(
    ("spoil", "kind"),
    [
        (lambda folder: (folder / "run.json").write_text("{"), "damaged"),
        (lambda folder: _edit(folder, '"schema": 1', '"schema": 2'), "newer"),
        (lambda folder: _edit(folder, '"sent": 600', '"sent": 601'), "damaged"),
        (lambda folder: _edit(folder, '"qos": 2', '"qos": 1'), "damaged"),
        (lambda folder: (folder / "samples.csv").unlink(), "damaged"),
        (lambda folder: _cut(folder / "samples.csv"), "damaged"),
    ],
)
def test_each_damage_is_named(tmp_path: Path, spoil: Callable[[Path], object], kind: str) -> None:
    folder = write_delay_run(tmp_path, pairs=SYMMETRICAL[:1])
    assert is_delay_run(read_document(folder))
    spoil(folder)
    (problem,) = select([folder]).unusable
    assert problem.kind == kind
    assert problem.meaning


def _edit(folder: Path, before: str, after: str) -> None:
    path = folder / "run.json"
    path.write_text(path.read_text().replace(before, after))


def _cut(path: Path) -> None:
    path.write_text("\n".join(path.read_text().splitlines()[:-5]) + "\n")


def test_the_command_line_gives_both_reports_their_own_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    read_text, names_read = Path.read_text, []

    def counting(path: Path, **options: str) -> str:
        names_read.append(path.name)
        return read_text(path, **options)

    monkeypatch.setattr(Path, "read_text", counting)
    results = tmp_path / "results"
    folder = write_delay_run(results, pairs=SYMMETRICAL[:1])
    assert report(tmp_path, [], None) == 0
    assert (tmp_path / "report" / "qos-delay.html").is_file()
    assert not (tmp_path / "report" / "index.html").exists()
    loop = write_run(results, "scenario0", cells={(20.0, 0): (np.full((3, 20), 900.0), np.full((3, 20), 100.0))})
    for named in ([], [loop.name, folder.name]):
        shutil.rmtree(tmp_path / "report")
        names_read.clear()
        assert report(tmp_path, named, None) == 0
        # That of each run once.
        assert names_read.count("run.json") == 2
        assert (tmp_path / "report" / "index.html").is_file()
        assert (tmp_path / "report" / "qos-delay.html").is_file()
    assert "not used" not in capsys.readouterr().out
