"""Raw data of benchmarks: small, analysed again by one command, and with parts that sum to their whole."""

import csv
import json
import lzma
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.places import ROOT, STORED_RUNS
from support.run_checks import check_ledger

DATA = ROOT / "bench/data"
MOST_BYTES = 5_000_000
ANALYSIS = runpy.run_path(str(ROOT / "bench/data.py"))


def stored_runs() -> Iterator[Path]:
    """Yield every run.json in the tree, those of this machine's own results included."""
    yield from sorted(DATA.rglob("run.json.xz"))
    for place in (STORED_RUNS, ROOT / "results"):
        yield from sorted(place.glob("*/run.json"))
    yield ROOT / "docs/exercises/samples/loop.json"


def document(path: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((lzma.open if path.suffix == ".xz" else open)(path, "rt").read())
    return read


@pytest.mark.parametrize("path", stored_runs(), ids=lambda path: path.parent.name)
def test_the_parts_of_a_stored_run_sum_to_its_o(path: Path) -> None:
    known = [check_ledger(cell) for cell in document(path)["cells"] if "O_us" in cell]
    assert any(known) or DATA not in path.parents


def test_the_data_are_small() -> None:
    assert 0 < sum(path.stat().st_size for path in DATA.rglob("*") if path.is_file()) <= MOST_BYTES


def test_one_command_prints_the_figures_of_the_page() -> None:
    done = subprocess.run([sys.executable, "bench/data.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    page = (ROOT / "bench/README.md").read_text(encoding="utf-8")
    lines = done.stdout.splitlines()
    assert len(lines) > 4
    assert [line for line in lines if line not in page] == []


def test_each_table_has_its_raw_data_or_says_that_it_has_none() -> None:
    done = subprocess.run([sys.executable, "bench/data.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    sections = (ROOT / "bench/README.md").read_text(encoding="utf-8").split("\n## ")[1:]
    assert len(sections) > 10
    for section in filter(lambda section: "\n|" in section, sections):
        kept = any(line in section for line in done.stdout.splitlines())
        marked = re.search(r"^\*(Without raw data|Simulated)\b", section, re.MULTILINE)
        assert kept != bool(marked), section.partition("\n")[0]


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
    found = [figure for _, figure in ANALYSIS["instrument"](tmp_path)]
    assert found[0] == "49 of 50"
    assert found[1] == "49 of 49"
    assert found[2].startswith("3 µs")
    assert found[3].startswith("100 µs")
    assert found[4] == "50 µs"
    assert found[5].startswith("0.000 µs of 49")
