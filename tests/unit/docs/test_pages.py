"""Every page is reachable from the README, and docs/data.md names what a run stores."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.places import ROOT
from unit.docs.test_paths import TRACKED

from looplab.experiments.registry import EXPERIMENTS

_LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")
# A template's page and a test's are no pages of the lab.
APART = ("compose/scenarios/_template/", "tests/")
DATA = (ROOT / "docs/data.md").read_text(encoding="utf-8")


def linked(page: Path) -> Iterator[Path]:
    for link in _LINK.findall(page.read_text(encoding="utf-8")):
        path = (page.parent / link).resolve()
        if path.suffix == ".md" and path.exists():
            yield path


def test_every_page_is_reachable_from_the_readme() -> None:
    first = ROOT / "README.md"
    seen, ahead = {first}, [first]
    while ahead:
        found = set(linked(ahead.pop())) - seen
        seen |= found
        ahead += found
    pages = {ROOT / name for name in TRACKED if name.endswith(".md") and not name.startswith(APART)}
    assert not sorted(str(page.relative_to(ROOT)) for page in pages - seen)


STORED = sorted((ROOT / "tests/support/stored_runs").glob("*/run.json"))


def schema_of(name: str) -> Any:
    return json.loads((ROOT / "src/looplab" / name / "run.schema.json").read_text())


def keys() -> set[str]:
    frame = schema_of("run")
    own = [schema_of(EXPERIMENTS[name].package.removeprefix("looplab.").replace(".", "/")) for name in EXPERIMENTS]
    within = [part for found in own for part in (found["properties"]["parameters"], found["$defs"]["cell"])]
    named = {key for part in (frame, frame["properties"]["environment"], *own, *within) for key in part["properties"]}
    for run in map(json.loads, (path.read_text() for path in STORED)):
        named |= {key for part in (run, run["parameters"], run["environment"], *run["cells"]) for key in part}
    return named


# Each document.py names the columns of its files in constants.
DOCUMENTS = [vars(EXPERIMENTS[name].part("document")) for name in EXPERIMENTS]
HEADERS = [text for held in DOCUMENTS for name, text in held.items() if name.endswith("_HEADER")]


@pytest.mark.parametrize("name", sorted({name for header in HEADERS for name in header.split(",")} | keys()))
def test_the_page_of_data_names_it(name: str) -> None:
    assert f"`{name}`" in DATA, f"docs/data.md lacks a line for {name}"
