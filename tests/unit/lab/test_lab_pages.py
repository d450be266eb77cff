"""The lab's pages: what they hold, that they replace each other as a whole, and that no run meets their rendering."""

import html
import re
import tarfile
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from support.places import ROOT
from support.simulated_runs import simulated_cell, write_run
from support.waiting import until

from looplab.lab import class_archives, pages
from looplab.lab.class_archives import checkout_files, write_archives
from looplab.lab.pages import Renderer
from looplab.lab.site import write_site
from looplab.run.folder import RunFolder


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lab with a stored run, whose renderer waits for nothing."""
    for name in ("compose", "docs"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "site").mkdir()
    (tmp_path / "results").mkdir()
    # The thesis has no figure of it: its report is written at once.
    store(tmp_path / "results", "scenario7", "20260101T000000Z")
    monkeypatch.setattr(pages, "QUIET_S", 0.0)
    monkeypatch.setenv("LAB_ROOT", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    return tmp_path


@pytest.fixture
def renderer(root: Path, monkeypatch: pytest.MonkeyPatch) -> Renderer:
    """A renderer with a quick program, which writes what results/ holds; while a file `slow` is there, it waits."""
    script = root / "render.py"
    script.write_text(
        "import os, pathlib, sys, time\n"
        "out = pathlib.Path(sys.argv[1]); out.mkdir()\n"
        "while os.path.exists('slow'): time.sleep(0.01)\n"
        "out.joinpath('index.html').write_text(' '.join(sorted(os.listdir('results'))))\n"
    )
    monkeypatch.chdir(root)
    monkeypatch.setattr(pages, "COMMAND", (str(script),))
    return Renderer(root, root / "site")


def store(results: Path, scenario: str, start: str) -> None:
    """A short run that has ended."""
    cells = {(20.0, 0): simulated_cell(np.random.default_rng(1), 2, 10, 900, 4290)}
    write_run(results, scenario, start=start, cells=cells)


def begin(results: Path) -> RunFolder:
    """A run that goes on."""
    return RunFolder.begun(results, "scenario2", 1, {"samples.csv": "row"}, datetime(2026, 1, 2, tzinfo=UTC))


def test_it_renders_once_after_each_run_and_never_during_one(root: Path, renderer: Renderer) -> None:
    front = root / "site/current/index.html"
    folder = begin(root / "results")
    renderer.look()
    assert not front.exists()
    folder.finish({})
    renderer.look()
    assert "20260102T000000Z-scenario2" in front.read_text()
    made = front.resolve()
    renderer.look()
    assert front.resolve() == made
    store(root / "results", "scenario3", "20260103T000000Z")
    renderer.look()
    assert "20260103T000000Z-scenario3" in front.read_text()
    assert not made.parent.exists()
    # A rendering that fails leaves the pages.
    made = front.resolve()
    (root / "render.py").write_text("raise SystemExit(1)")
    assert renderer.render()
    assert front.resolve() == made


def test_a_run_that_begins_ends_the_rendering(root: Path, renderer: Renderer) -> None:
    renderer.look()
    before = (root / "site/current/index.html").read_text()
    store(root / "results", "scenario3", "20260103T000000Z")
    (root / "slow").touch()
    folder = begin(root / "results")
    # While the file `slow` is there, it would not end.
    assert not renderer.render()
    assert (root / "site/current/index.html").read_text() == before
    assert {path.name for path in (root / "site").iterdir()} == {"current", (root / "site/current").resolve().name}
    folder.finish({})
    (root / "slow").unlink()
    renderer.look()
    until(lambda: "scenario3" in (root / "site/current/index.html").read_text(), "the next rendering")


@pytest.mark.parametrize("students", [False, True])
def test_every_link_of_every_page_leads_somewhere(root: Path, students: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A students' copy has a note in place of the teachers' page; here it lacks a page that others link, too."""
    if students:
        pages_alone = [name for name in checkout_files(ROOT) if name.startswith(("docs/", "compose"))]
        monkeypatch.setattr(class_archives, "checkout_files", lambda _root: pages_alone)
        archive, _ = write_archives(ROOT, root / "room.bundle")
        with tarfile.open(archive) as packed:
            packed.extractall(root / "copy", filter="data")
        root = root / "copy/looplab"
        (root / "results").mkdir()
        (root / "docs/method.md").unlink()
    write_site(root, root / "out")
    texts = {path: path.read_text() for path in (root / "out").rglob("*.html")}
    dead = []
    for path, text in texts.items():
        for link in re.findall(r'(?:href|src)="(?!https?:|data:)([^"]+)"', text):
            to, _, part = html.unescape(link).partition("#")
            target = (path.parent / to).resolve() if to else path
            # A note in place of a page has no headings.
            if not target.is_file() or (part and not students and f'id="{part}"' not in texts[target]):
                dead.append((path.name, link))
    assert dead == []
    front = texts[root / "out/index.html"]
    here = {*re.findall(r'(?:href|src)="([^"]+)"', front)}
    assert {"handouts/scenario1.html", "http://127.0.0.1:3000", "http://127.0.0.1:9090"} <= here
    # Without a run it says how to start one.
    assert ("reports/index.html" in here, "Newest run: scenario7" in front) == (not students,) * 2
    assert ("No run yet" in front, (root / "out/reports").exists()) == (students, not students)
    table = texts[root / "out/docs/ports.tsv.html"]
    assert len(re.findall("<tr>", table)) == len((root / "docs/ports.tsv").read_text().splitlines())
