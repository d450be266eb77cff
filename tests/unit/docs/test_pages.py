"""Every page is reachable from the README, and docs/data.md names what a run stores."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.places import ROOT
from unit.docs.test_paths import TRACKED

from looplab.experiments.loop import document as loop
from looplab.experiments.qos_delay import document as qos_delay

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
    frame, loops = schema_of("run"), schema_of("experiments/loop")
    within = (frame["properties"]["environment"], loops["properties"]["parameters"], loops["$defs"]["cell"])
    named = {key for part in (frame, loops, *within) for key in part["properties"]}
    for run in map(json.loads, (path.read_text() for path in STORED)):
        named |= {key for part in (run, run["parameters"], run["environment"], *run["cells"]) for key in part}
    return named


HEADERS = (loop.SAMPLES_HEADER, loop.TRANSPORT_HEADER, qos_delay.SAMPLES_HEADER, qos_delay.TRANSPORT_HEADER)


@pytest.mark.parametrize("name", sorted({name for header in HEADERS for name in header.split(",")} | keys()))
def test_the_page_of_data_names_it(name: str) -> None:
    assert f"`{name}`" in DATA, f"docs/data.md lacks a line for {name}"
