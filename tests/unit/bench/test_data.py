"""Raw data of benchmarks: small, analysed again by one command, and with parts that sum to their whole."""

import csv
import json
import lzma
import re
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.places import ROOT, STORED_RUNS
from support.run_checks import check_ledger

DATA = ROOT / "bench/data"
MOST_BYTES = 5_000_000
sys.path.insert(0, str(ROOT / "bench"))

from data import THEMES, main  # noqa: E402
from kept import keep  # noqa: E402


def stored_runs() -> Iterator[Path]:
    """Yield every run.json in the tree, those of this machine's own results included."""
    yield from sorted(DATA.rglob("run.json.xz"))
    for place in (STORED_RUNS, ROOT / "results"):
        yield from sorted(place.glob("*/run.json"))
    yield ROOT / "docs/exercises/samples/loop.json"


@pytest.mark.parametrize("path", [*stored_runs()], ids=lambda path: path.parent.name)
def test_the_parts_of_a_stored_run_sum_to_its_o(path: Path) -> None:
    cells = json.loads((lzma.open if path.suffix == ".xz" else open)(path, "rt").read())["cells"]
    known = [check_ledger(cell) for cell in cells if "O_us" in cell]
    assert all(known) or DATA not in path.parents


def test_the_data_are_small() -> None:
    assert 0 < sum(path.stat().st_size for path in DATA.rglob("*") if path.is_file()) <= MOST_BYTES


def test_each_table_is_printed_again_by_one_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Or it is marked: as simulated from fixed seeds, or as without raw data."""
    assert main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    page = (ROOT / "bench/README.md").read_text(encoding="utf-8")
    assert [line for line in lines if line not in page] == []
    sections = page.split("\n## ")[1:]
    assert len(sections) > 10
    for section in filter(lambda section: "\n|" in section, sections):
        kept = any(line in section for line in lines)
        marked = re.search(r"^\*(Without raw data|Simulated)\b", section, re.MULTILINE)
        assert kept != bool(marked), section.partition("\n")[0]


@pytest.mark.parametrize("script", sorted((ROOT / "bench").glob("*.py")), ids=lambda script: script.name)
def test_what_a_benchmark_imports_is_there(script: Path) -> None:
    runpy.run_path(str(script), run_name="bench")


def put(path: Path, rows: list[tuple[object, ...]]) -> None:
    path.parent.mkdir(exist_ok=True)
    with lzma.open(path, "wt", newline="") as file:
        csv.writer(file).writerows(rows)


def test_what_the_lab_adds_to_its_packets_is_found(tmp_path: Path) -> None:
    """T is 900 us, the packets are 800 us apart, and the kernel's stamps 803; of 50 messages one has no packets."""
    run = tmp_path / "20260101T000000Z-instrument"
    put(
        run / "samples.csv.xz",
        [("sequence", "total_us", "overhead_us", "outcome"), *((k, 900, 850, "answered") for k in range(50))],
    )
    parts = ("send_path_us", "wake_up_us", "bridge_wake_up_us", "bridge_send_path_us", "network_us")
    put(run / "transport.csv.xz", [("sequence", *parts), *((k, 57, 40, 20, 30, 703.0005) for k in range(50))])
    packets = [
        (way, token, k, at)
        for token in ("abc", "floor1")
        for k in range(49)
        for way, at in (("out", k), ("in", k + 800_000))
    ]
    put(tmp_path / "packets.csv.xz", [("way", "run", "sequence", "at_ns"), *packets, ("in", "abc", 0, 900_000)])
    with lzma.open(run / "run.json.xz", "wt") as file:
        json.dump({"token": "abc"}, file)
    with lzma.open(tmp_path / "floor.json.xz", "wt") as file:
        json.dump([{"n": 49, "T_us": {"p50": 850.0}}], file)
    found = [figure for _, figure in THEMES["instrument"](tmp_path)]
    assert found[0] == "49 of 50"
    assert found[1] == "49 of 49"
    assert found[2].startswith("3 µs")
    assert found[3].startswith("100 µs")
    assert found[4] == "50 µs"
    assert found[5].startswith("0.000 µs of 49")


def test_a_neighbour_is_compared_with_the_load_alone(tmp_path: Path) -> None:
    """The lab doubles p95, and in one of two samples a wake-up is 30 ms late."""
    samples = [("+ all", [200] * 99 + [30_000]), ("load alone", [100] * 100)] * 2
    samples[0] = ("+ all", [200] * 100)
    keep(tmp_path / "stress-all.jsonl.xz", [{"arm": arm, "late_us": late} for arm, late in samples])
    assert list(THEMES["bystander"](tmp_path)) == [
        ("under stress", "missed: 2.00 x (0.20 and 0.10 ms) | 1 of 2; 0 of 2")
    ]
