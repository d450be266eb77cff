"""docs/factors.tsv: every factor has its place in the source, and what shows it in a run."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from support.places import ROOT

from looplab.exercises.fidelity import FACTORS, NOT_STATED, sources
from looplab.experiments.registry import EXPERIMENTS

LINES = [line.split("\t") for line in (ROOT / FACTORS).read_text(encoding="utf-8").splitlines()]
CODE = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src/looplab").rglob("*.py"))
# What the code calls treatments: those of runs that are younger than the stored ones, too.
TREATMENTS = re.findall(r'(?:Treatment|compared)\(\s*f?"([^"]+)"', CODE)
YOUNGER = re.compile("|".join(re.sub(r"\\\{.*?\\\}", ".+", re.escape(what)) for what in TREATMENTS))


def row(experiment: str, variable: str) -> list[str]:
    [cells] = [cells for cells in LINES if cells[:2] == [experiment, variable]]
    return cells[2:]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_each_factor_has_a_line(name: str) -> None:
    factors, lines = EXPERIMENTS[name].parameters.factors(), sources(EXPERIMENTS[name])
    assert set(lines) == set(factors), f"a line of {EXPERIMENTS[name].folder}/factors.csv for each factor"
    without = {variable for variable, one in factors.items() if one.default is None}
    assert {variable for variable, line in lines.items() if line["value"]} == without


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_what_is_not_stated_says_what_is_assumed(name: str) -> None:
    lines = sources(EXPERIMENTS[name])
    assert [variable for variable, line in lines.items() if not line["printed"] + line["note"]] == []


def test_what_differs_by_fidelity_is_listed_with_its_place() -> None:
    found = {}
    for name in EXPERIMENTS:
        for variable, one in EXPERIMENTS[name].parameters.factors().items():
            if isinstance(one.default, Mapping) and one.usual("thesis") != one.usual("corrected"):
                cells = row(name, variable)
                found[name, variable] = cells
                assert one.usual("thesis") in cells[0]
                assert f"corrected: {one.usual('corrected')}" in cells[0] or "thesis: " in cells[0]
                assert cells[1] != NOT_STATED or cells[2]
    assert {"TCP_NODELAY", "QOS_LEGS", "PACING"} <= {variable for name, variable in found if name == "loop"}


def named_in(document: object) -> Iterator[str]:
    """Yield every key, and what each treatment is called."""
    if isinstance(document, dict):
        yield from document
        yield str(document.get("what"))
        document = list(document.values())
    if isinstance(document, list):
        for one in document:
            yield from named_in(one)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_what_shows_a_factor_is_in_a_run(name: str) -> None:
    stored = {
        key
        for path in (ROOT / "tests/support/sample_runs").glob("*.json")
        for key in named_in(json.loads(path.read_text()))
    }
    stored |= EXPERIMENTS[name].parameters.params().keys()
    named = {one for line in sources(EXPERIMENTS[name]).values() for one in line["verified"].split(", ")}
    assert [one for one in named if one not in stored and not Path(one).suffix and not YOUNGER.fullmatch(one)] == []
