"""The lab's pages: what they hold, that they replace each other as a whole, and that no run meets their rendering."""

import html
import re
import shutil
import subprocess
import sys
import tarfile
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from support.places import ROOT
from support.run_files import edited
from support.simulated_runs import simulated_cell, write_run
from support.waiting import until
from support.wire import call

from looplab.lab import pages
from looplab.lab.class_archives import write_archives
from looplab.lab.pages import Renderer, elsewhere, run_goes_on, stored
from looplab.lab.site import write_site
from looplab.run.folder import UNFINISHED, RunFolder


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lab with a stored run, whose renderer waits for nothing."""
    for name in ("compose", "docs"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "site").mkdir()
    (tmp_path / "results").mkdir()
    store(tmp_path / "results", "scenario1", "20260101T000000Z")
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


def test_a_run_goes_on_until_its_folder_has_its_name(root: Path) -> None:
    results = root / "results"
    assert not run_goes_on(results)
    folder = begin(results)
    assert run_goes_on(results)
    assert stored(results) == {"20260101T000000Z-scenario1"}
    folder.finish({})
    assert not run_goes_on(results)
    assert len(stored(results)) == 2


def test_a_run_whose_controller_was_killed_does_not_go_on(root: Path) -> None:
    script = """import os, pathlib, sys, looplab.run.folder as run
folder = run.RunFolder.begun(pathlib.Path(sys.argv[1]), "scenario2", 1, {"samples.csv": "row"})
print(folder.run_id, flush=True)
sys.stdin.read()"""
    command = [sys.executable, "-c", script, str(root / "results")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert run_goes_on(root / "results")
        process.kill()
    assert list((root / "results").glob(UNFINISHED))
    assert not run_goes_on(root / "results")


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


def test_a_rendering_that_fails_leaves_the_site(
    root: Path, renderer: Renderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    renderer.look()
    before = (root / "site/current").resolve()
    (root / "broken.py").write_text("raise SystemExit(1)")
    monkeypatch.setattr(pages, "COMMAND", (str(root / "broken.py"),))
    store(root / "results", "scenario3", "20260103T000000Z")
    assert renderer.render()
    assert (root / "site/current").resolve() == before


def test_serving_takes_no_library() -> None:
    """Beside a run each would take memory: pandas 45 MB."""
    load = f"import sys; sys.path.append({str(ROOT / 'src')!r}); import looplab.lab.pages"
    call(sys.executable, "-I", "-S", "-c", load)


def test_the_front_page_has_runs_reports_and_handouts(root: Path) -> None:
    store(root / "results", "scenario1", "20260102T000000Z")
    write_site(root, root / "out")
    text = (root / "out/index.html").read_text()
    assert "Newest run: scenario1" in text
    assert "20260102T000000Z-scenario1" in text
    targets = [link for link in re.findall(r'(?:href|src)="([^"]+)"', text) if not link.startswith("data:")]
    assert {"http://127.0.0.1:3000", "http://127.0.0.1:9090"} <= {*targets}
    here = [link for link in targets if not link.startswith("http")]
    assert {"reports/index.html", "handouts/scenario1.html"} <= {*here}
    assert [link for link in here if not (root / "out" / link).is_file()] == []


@pytest.mark.parametrize("students", [False, True])
def test_every_link_of_every_page_leads_somewhere(root: Path, students: bool) -> None:
    """A students' copy has a note in place of the teachers' page; here it lacks a page that others link, too."""
    if students:
        archive, _ = write_archives(ROOT, root / "room.bundle")
        with tarfile.open(archive) as packed:
            packed.extractall(root / "copy", filter="data")
        shutil.copytree(root / "results", root / "copy/looplab/results", dirs_exist_ok=True)
        root = root / "copy/looplab"
        (root / "docs/method.md").unlink()
    write_site(root, root / "out")
    texts = {path: path.read_text() for path in (root / "out").rglob("*.html")}
    dead = []
    for path, text in texts.items():
        for link in re.findall(r'(?:href|src)="(?!https?:|data:)([^"]+)"', text):
            to, _, part = html.unescape(link).partition("#")
            target = (path.parent / to).resolve() if to else path
            if not target.is_file() or (part and f'id="{part}"' not in texts[target]):
                dead.append((path.name, link))
    assert dead == []
    assert ("preparing-a-room" in texts[root / "out/docs/platforms.html"]) != students
    assert 'href="../docs/background.html#delay-margin' in texts[root / "out/handouts/balance.html"]


def test_a_table_of_the_pages_is_shown_as_a_table(root: Path) -> None:
    write_site(root, root / "out")
    text = (root / "out/docs/ports.tsv.html").read_text()
    assert "<th>open to</th>" in text
    assert len(re.findall("<tr>", text)) == len((root / "docs/ports.tsv").read_text().splitlines())
    assert '<a href="published-and-here.tsv.html">' in (root / "out/docs/published-and-here.html").read_text()


def test_without_a_run_the_front_page_says_how_to_start_one(root: Path) -> None:
    (root / "results/20260101T000000Z-scenario1").rename(root / "elsewhere")
    write_site(root, root / "out")
    assert "No run yet" in (root / "out/index.html").read_text()
    assert not (root / "out/reports").exists()


def test_a_damaged_run_stops_no_page(root: Path) -> None:
    store(root / "results", "scenario1", "20260103T000000Z")
    with edited(root / "results/20260103T000000Z-scenario1") as document:
        del document["cells"][0]["O_us"]["min"]
    write_site(root, root / "out")
    assert "20260101T000000Z-scenario1" in (root / "out/index.html").read_text()
    assert "'min' is a required property" in html.unescape((root / "out/reports/index.html").read_text())


def test_ports_and_address_are_those_of_the_lab() -> None:
    settings = {"LAB_BIND": "192.0.2.7", "LAB_GRAFANA_PORT": "3001", "LAB_PROMETHEUS_PORT": ""}
    assert [address for _, address, _ in elsewhere(settings)] == ["http://192.0.2.7:3001", "http://192.0.2.7:9090"]
    assert [name for name, *_ in elsewhere({"GRAFANA": "off", "LAB_BIND": "0.0.0.0"})] == ["Prometheus"]


def test_the_first_page_loads_no_library_of_a_report(tmp_path: Path) -> None:
    lines = (
        "import sys, pathlib",
        "from looplab.lab.pages import write_first_page",
        f"write_first_page(pathlib.Path({str(tmp_path / 'site')!r}))",
        "print(*{'numpy', 'pandas', 'scipy'} & set(sys.modules))",
    )
    done = call(sys.executable, "-c", "\n".join(lines), env={"PYTHONPATH": str(ROOT / "src")})
    assert done.strip() == ""
    assert "No page yet" in (tmp_path / "site/index.html").read_text()
