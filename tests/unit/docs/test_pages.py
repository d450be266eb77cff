"""The pages: every path and page is there, sentences and pages are short.

lychee follows the links (./lab test --lint). Sentences are for readers of another language.
"""

import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from statistics import mean

import pytest
from support.places import ROOT
from support.run_files import store

# Made by the lab: absent from a fresh checkout.
MADE = ("results/", "report/", "answers/", "rpi/.env", "rpi/secrets/")
TRACKED = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
FILES = [Path(name) for name in TRACKED]
PROSE = [name for name in TRACKED if name.endswith(".md")]
FOLDERS = sorted({name.partition("/")[0] for name in TRACKED if "/" in name})
# The new experiment's pages name places of the copy that a test puts them into.
PAGES = [
    name
    for name in TRACKED
    if (name.endswith((".md", ".yaml", ".yml", ".sh")) or name.startswith(("scripts/", ".ci/")))
    and not name.startswith("tests/support/counter_experiment/")
]
# A reference to an image or a name with a variable in it is no path.
_NAMED = re.compile(rf"(?<![\w./$}}{{<@-])(?:\./)?((?:{'|'.join(map(re.escape, FOLDERS))})/[\w./*-]++)(?![:$@{{])")
_MODULE = re.compile(r"(?<![\w./*-])[\w/*-]+\.py\b")
MEAN, LONG, LONG_SHARE = 18, 20, 0.05
# Code in fences or after an empty line or heading, comments, tables and headings hold no sentences.
_NO_PROSE = re.compile(r"^```[\s\S]*?^```$|<!--[\s\S]*?-->|^(?:#.*)?\n(?: {4}.*\n|\n)+|^[|#].*$", re.MULTILINE)
_PARAGRAPH = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+[.:]) )")
_END = re.compile(r"(?<=[.!?])(?<!e\.g\.)[\"”)*]*\s+")
_LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")
# A template's page and a test's are no pages of the lab.
APART = ("compose/scenarios/_template/", "compose/experiments/own/template/", "tests/")
# The first page is two screens, a handout is read before the first run. Code counts, signs of a table do not.
MOST_WORDS = {"README.md": 750, "compose/": 550, "docs/exercises/": 500, "": 1200}


def named(page: str) -> set[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    # In a page of prose only code names a path: `path`, or an indented line.
    if page.endswith(".md"):
        text = "\n".join([*re.findall(r"`([^`\n]+)`", text), *re.findall(r"^ {4}.*$", text, re.MULTILINE)])
    paths = {path.rstrip("./") for path in _NAMED.findall(text)}
    modules = {f"**/{path}" for path in _MODULE.findall(text) if path.partition("/")[0] not in FOLDERS}
    return paths | modules


@cache
def exists(pattern: str) -> bool:
    return any(path.match(pattern.removeprefix("**/")) for path in FILES) or any(ROOT.glob(pattern))


def test_the_paths_of_a_page_exist() -> None:
    paths = {(page, path) for page in PAGES for path in named(page) if not path.startswith(MADE)}
    assert sorted((page, path) for page, path in paths if not exists(path)) == []


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
    pages = {ROOT / name for name in PROSE if not name.startswith(APART)}
    assert not sorted(str(page.relative_to(ROOT)) for page in pages - seen)


def test_a_page_is_short() -> None:
    for page in PROSE:
        most = next(words for beginning, words in MOST_WORDS.items() if page.startswith(beginning))
        words = (ROOT / page).read_text(encoding="utf-8").split()
        assert sum(bool(re.search(r"\w", word)) for word in words) <= most, page


def test_the_python_of_a_page_reads_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    newest = store(tmp_path / "results", "20260102T000000Z-scenario1", messages=5)
    (newest / "transport.csv").write_text("sequence,transport_overhead_us\n0,900\n1,900\n")
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/data.md").read_text(), re.M | re.S))
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    assert re.search(rf"{newest.name} valid.*^scenario1 +\S+ +0 +1\.0 ", capsys.readouterr().out, re.M | re.S)


def sentences(text: str) -> Iterator[list[str]]:
    """Yield the words of each sentence; a piece of code is one word, of a link its text counts."""
    for paragraph in _PARAGRAPH.split(_NO_PROSE.sub("\n\n", text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]*`", "CODE", paragraph))
        for sentence in _END.split(plain):
            words = [word for word in sentence.split() if re.search(r"\w", word)]
            if len(words) > 2:
                yield words


def test_sentences_are_short() -> None:
    found = [words for name in PROSE for words in sentences((ROOT / name).read_text())]
    too_long = sorted((" ".join(words) for words in found if len(words) > LONG), key=len, reverse=True)
    assert len(found) > 1000
    assert mean(map(len, found)) <= MEAN
    assert len(too_long) <= LONG_SHARE * len(found), "\n".join(too_long[:20])
