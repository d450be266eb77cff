"""Raw data of benchmarks: small, read by the lab's own report code, and analysed again by one command."""

import csv
import re
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.places import ROOT
from support.reports import shown
from support.run_checks import check_ledger

from looplab.experiments.registry import EXPERIMENTS
from looplab.report.samples import MeasuredRuns, measure
from looplab.report.stored import Selection, StoredRun, read_run

BENCH = ROOT / "bench"
MOST_FILES, MOST_BYTES = 21, 4_000_000
sys.path.insert(0, str(BENCH))

import kept  # noqa: E402
from data import THEMES, main  # noqa: E402
from instrument import packets  # noqa: E402


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All raw data, a folder a theme."""
    folder = tmp_path_factory.mktemp("data")
    kept.unpack(folder)
    return folder


def check_ledgers(found: Sequence[MeasuredRuns]) -> None:
    """Check that the parts of each cell sum to its O."""
    cells = [cell for one in found for run in one.runs for cell in run.run.document["cells"]]
    assert all(check_ledger(cell) for cell in cells if "O_us" in cell)


# By theme: the experiment, the fidelity of its study and how many claims that judged.
STUDIES = {
    "claims": ("loop", "thesis", 18), "claims-printed": ("loop", "printed", 18),
    "qos-delay-study": ("qos-delay", "thesis", 7), "asip-study": ("asip", "thesis", 4),
    "twin-study": ("twin", "thesis", 2), "middleware-study": ("middleware", "thesis", 3),
}  # fmt: skip


@pytest.mark.parametrize("theme", [theme for theme in THEMES if theme not in STUDIES])
def test_the_report_code_reads_every_run(data: Path, theme: str) -> None:
    runs = [read_run(path, EXPERIMENTS) for path in sorted((data / theme).iterdir()) if path.is_dir()]
    assert [str(run) for run in runs if not isinstance(run, StoredRun)] == []
    for run in runs:
        selection = Selection(runs=[run])  # type: ignore[list-item]
        check_ledgers(measure(selection))
        assert [str(one) for one in selection.unusable] == []


@pytest.mark.parametrize("theme", STUDIES)
def test_the_table_has_the_words_of_a_stored_study(data: Path, theme: str) -> None:
    """As the engine judges it today, whatever was printed when it ran."""
    experiment, fidelity, judged = STUDIES[theme]
    with (ROOT / "docs/verdicts.tsv").open(encoding="utf-8", newline="") as file:
        printed = [row for row in csv.DictReader(file, delimiter="\t") if row["theme in bench/data"] == theme]
    found = shown(data / theme, experiment)
    assert (len(printed), found.selection.unusable) == (judged, [])
    check_ledgers([run for one in found.measured for run in (one, *one.earlier)])
    words = [(row, found.verdict(row["claim"], fidelity).word) for row in printed]
    assert [row for row, word in words if not row["verdict"].startswith(word)] == []


def test_the_data_are_small_and_few() -> None:
    files = [path for path in BENCH.rglob("*") if path.is_file() and "cache" not in path.parent.name]
    assert len(files) <= MOST_FILES
    assert 0 < sum(path.stat().st_size for path in kept.archives()) <= MOST_BYTES


def test_the_table_of_figures_is_what_the_raw_data_give(capsys: pytest.CaptureFixture[str]) -> None:
    """The page names each limit that is missed."""
    assert main([]) == 0
    printed = capsys.readouterr().out
    assert printed == (BENCH / "figures.tsv").read_text(encoding="utf-8"), "python3 bench/data.py >bench/figures.tsv"
    page = " ".join((BENCH / "README.md").read_text(encoding="utf-8").split())
    missed = re.findall(r"missed: (.*)", printed)
    themes = [line.split("\t") for line in (ROOT / "docs/benchmarks.tsv").read_text(encoding="utf-8").splitlines()]
    assert {line.partition("\t")[0] for line in printed.splitlines()[1:]} == {theme for theme, *_ in themes[1:]}
    assert missed
    assert [one for one in missed if one not in page] == []


@pytest.mark.parametrize("script", sorted(BENCH.glob("*.py")), ids=lambda script: script.name)
def test_what_a_benchmark_imports_is_there(script: Path) -> None:
    runpy.run_path(str(script), run_name="bench")


def packet(at_ns: int, source: int, target: int, payload: bytes) -> bytes:
    """Return a record of a pcap file: Ethernet, IP without options, TCP."""
    ports = source.to_bytes(2, "big") + target.to_bytes(2, "big")
    frame = bytes(14) + bytes([0x45]) + bytes(19) + ports + bytes(16) + payload
    numbers = (*divmod(at_ns, 10**9), len(frame), len(frame))
    return b"".join(number.to_bytes(4, "little") for number in numbers) + frame


def test_of_the_packets_on_the_bridge_those_of_the_sender_count(tmp_path: Path) -> None:
    """A request goes on to the bridge, and an answer comes from there, with the same words."""
    request, answer = b"\x30request/E-abc-7", b"\x30answer/abc,7,ok,1"
    records = [
        packet(1_000, 40001, 1883, request),
        packet(2_000, 1883, 40002, request),
        packet(3_000, 40002, 1883, answer),
        packet(4_000, 1883, 40001, answer),
    ]
    (tmp_path / "x.pcap").write_bytes((0xA1B23C4D).to_bytes(4, "little") + bytes(20) + b"".join(records))
    assert [*packets(tmp_path / "x.pcap")] == [("out", "abc", 7, 1_000), ("in", "abc", 7, 4_000)]
