"""Every page is reachable from the README; its tables are shown as tables."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.places import ROOT
from support.run_files import store
from unit.docs.test_paths import TRACKED

# The first row of a table, and a second one that is no line of dashes: such a table is shown as text.
_HEADLESS = re.compile(r"^(?!\|).*\n(\|.*)\n(?!\|[-:| ]+\|$)", re.MULTILINE)
_LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")
# A template's page and a test's are no pages of the lab.
APART = ("compose/scenarios/_template/", "compose/experiments/own/template/", "tests/")
# The first page is two screens, a handout is read before the first run. Code counts, signs of a table do not.
MOST_WORDS = {"README.md": 750, "compose/": 550, "docs/exercises/": 500, "": 1200}


def linked(page: Path) -> Iterator[Path]:
    for link in _LINK.findall(page.read_text(encoding="utf-8")):
        path = (page.parent / link).resolve()
        if path.suffix == ".md" and path.exists():
            yield path


def test_every_page_is_reachable_from_the_readme() -> None:
    first = ROOT / "README.md"
    seen, ahead = {first}, [first]
    while ahead:
        pages = set(linked(ahead.pop())) - seen
        seen |= pages
        ahead += pages
    pages = {ROOT / name for name in TRACKED if name.endswith(".md") and not name.startswith(APART)}
    assert not sorted(str(page.relative_to(ROOT)) for page in pages - seen)


@pytest.mark.parametrize("page", [name for name in TRACKED if name.endswith(".md")])
def test_a_page_is_short(page: str) -> None:
    most = next(words for beginning, words in MOST_WORDS.items() if page.startswith(beginning))
    text = (ROOT / page).read_text(encoding="utf-8")
    assert sum(bool(re.search(r"\w", word)) for word in text.split()) <= most


def test_each_table_has_a_head() -> None:
    pages = [name for name in TRACKED if name.endswith(".md")]
    assert [name for name in pages if _HEADLESS.search((ROOT / name).read_text(encoding="utf-8"))] == []


def test_each_data_file_of_the_pages_is_a_table_that_a_page_links() -> None:
    files = [ROOT / name for name in TRACKED if name.startswith("docs/") and name.endswith(".tsv")]
    texts = [(ROOT / name).read_text(encoding="utf-8") for name in TRACKED if re.match(r"(docs/)?[^/]+\.md$", name)]
    assert len(files) > 1
    assert [file.name for file in files if not any(f"{file.name})" in text for text in texts)] == []
    for file in files:
        head, *lines = (line.split("\t") for line in file.read_text(encoding="utf-8").splitlines())
        assert [line for line in lines if len(line) != len(head)] == [], file.name


def test_the_python_of_a_page_reads_runs(tmp_path: Path) -> None:
    newest = store(tmp_path / "results", "20260102T000000Z-scenario1", messages=5)
    (newest / "transport.csv").write_text("sequence,transport_overhead_us\n0,900\n1,900\n")
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/data.md").read_text(), re.M | re.S))
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert re.search(rf"{newest.name} valid.*^scenario1 +\S+ +0 +1\.0 ", ran.stdout, re.M | re.S), ran.stderr
