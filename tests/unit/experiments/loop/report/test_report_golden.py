"""The whole report over every stored run in data/: real runs, made by the lab itself."""

from __future__ import annotations

import csv
import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from looplab.experiments.loop.report import painters, published
from looplab.experiments.loop.report.command import write_report
from looplab.report.stored import StoredRun, read_run

EMPTY_TAGS = {"meta", "link", "img", "br"}


class Page(HTMLParser):
    """Tags with their attributes, the text, and whether every tag was closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in EMPTY_TAGS:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.fixture(scope="module")
def report(stored_runs: Path) -> Path:
    """Written once, only read by the tests."""
    out = stored_runs.parent / "out"
    assert write_report(stored_runs, [], out) == 0
    return out


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_page_is_whole_and_asks_for_nothing(report: Path) -> None:
    text = (report / "index.html").read_text()
    page = Page(text)
    assert page.open == []
    addresses = [value for _, attrs in page.tags for name, value in attrs.items() if name in ("src", "href")]
    assert addresses
    assert all(address and address.startswith(("#", "data:")) for address in addresses)
    assert not re.findall(r"url\(|@import|<script", text)
    ids = {attrs["id"] for _, attrs in page.tags if attrs.get("id")}
    assert {address[1:] for address in addresses if address and address.startswith("#")} <= ids


def test_what_many_runs_have_in_common_is_said_once(report: Path) -> None:
    words = " ".join(Page((report / "index.html").read_text()).words)
    assert words.count("The schedule itself was disturbed") == 1
    assert "so wider intervals: 8 in all of them." in words
    assert words.count("The machine was busy before the run") == 1


def test_an_interval_that_is_open_is_shown_as_such(report: Path) -> None:
    """Of 200 messages p99 has no upper end: the page says ∞, the CSV inf."""
    p99 = [row for row in rows(report / "tables.csv") if row["p99_us"]]
    assert p99
    assert all(row["p99_high_us"] == "inf" for row in p99)
    assert "… ∞" in (report / "index.html").read_text()


def test_every_figure_has_a_text_that_says_what_it_shows(report: Path) -> None:
    images = [attrs for tag, attrs in Page((report / "index.html").read_text()).tags if tag == "img"]
    assert len(images) >= 10
    for image in images:
        assert re.search(r"half of \d+ messages below [\d.]+ ms", image["alt"] or "")
    assert len(list((report / "figures").glob("*.svg"))) == len(images)
    for figure in (report / "figures").glob("*.png"):
        assert figure.read_bytes().startswith(b"\x89PNG")


def test_every_run_is_used_or_named(report: Path, real_results: Path) -> None:
    page = (report / "index.html").read_text()
    listed = {row["run_id"] for row in rows(report / "runs.csv")}
    for folder in real_results.iterdir():
        assert folder.name in page
        assert folder.name in listed


def test_the_tables_hold_the_published_figures_and_those_of_run_json(report: Path, real_results: Path) -> None:
    table = rows(report / "tables.csv")
    for lines in published.tables().values():
        for line in lines:
            key = {"scenario": line.scenario, "interval_ms": f"{line.interval_ms:g}", "qos": str(line.qos)}
            found = [row for row in table if key.items() <= row.items()]
            assert {row["metric"] for row in found} == {"T", "R", "O"}
            if line.outcome == "answered":
                assert any(row["published_avg_us"] == f"{line.latency_us['T_avg']:.3f}" for row in found)
            else:
                assert {row["published_outcome"] for row in found} == {line.outcome}
    runs = {run.run_id: run for path in real_results.iterdir() if isinstance(run := read_run(path), StoredRun)}
    checked = 0
    for row in table:
        if not row["run_id"] or not row["mean_us"]:
            continue
        cells = runs[row["run_id"]].document["cells"]
        cell = next(c for c in cells if (f"{c['interval_ms']:g}", str(c["qos"])) == (row["interval_ms"], row["qos"]))
        told = cell[f"{row['metric']}_us"]
        for name, column in (
            ("avg", "mean_us"),
            ("min", "min_us"),
            ("max", "max_us"),
            ("p50", "p50_us"),
            ("p99", "p99_us"),
        ):
            assert float(row[column]) == pytest.approx(told[name], abs=0.002), (row["run_id"], name)
        if row["mean_low_us"]:
            assert float(row["mean_low_us"]) <= float(row["mean_us"]) <= float(row["mean_high_us"])
        checked += 1
    assert checked >= 60


def test_every_claim_is_answered_with_a_reason(report: Path) -> None:
    verdicts = rows(report / "verdicts.csv")
    assert {row["fidelity"] for row in verdicts} == {"thesis", "corrected"}
    assert len({row["claim"] for row in verdicts}) == 11
    for row in verdicts:
        assert row["verdict"] in ("reproduced", "not reproduced", "undecided", "not run")
        assert len(row["reason"]) > 10
    thesis = {row["claim"]: row["verdict"] for row in verdicts if row["fidelity"] == "thesis"}
    # These runs have bursts and stress: what they show does not hang on the machine.
    assert thesis["stress"] == "reproduced"


def test_the_same_runs_give_the_same_report(real_results: Path, report: Path) -> None:
    again = real_results.parent / "again"
    write_report(real_results, [], again)
    for name in ("tables.csv", "verdicts.csv", "figures.csv"):
        assert (report / name).read_bytes() == (again / name).read_bytes()
    for figure in (report / "figures").glob("*.svg"):
        assert figure.read_bytes() == (again / "figures" / figure.name).read_bytes()


def test_the_stored_runs_are_small_and_name_no_place(real_results: Path) -> None:
    sizes = [path.stat().st_size for path in real_results.rglob("*") if path.is_file()]
    assert sum(sizes) < 3_000_000
    for path in real_results.glob("*/run.json"):
        assert json.loads(path.read_text())["schema"] == 1


def test_painters_that_die_cost_time_and_nothing_else(
    real_results: Path, report: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(painters, "_get_ready", os.abort)
    out = real_results.parent / "alone"
    assert write_report(real_results, [], out) == 0
    assert (out / "figures.csv").read_bytes() == (report / "figures.csv").read_bytes()
    assert len(list((out / "figures").iterdir())) == len(list((report / "figures").iterdir()))
