"""The benchmarks are run by hand, now and then: what they import from the lab must still be there."""

import ast
import importlib.util
from pathlib import Path

import pytest
from support.places import ROOT

SCRIPTS = sorted((ROOT / "bench").glob("*.py"))


def imported(script: Path) -> list[tuple[str, str]]:
    """Return (module, name) of every import of the lab, also of those within functions."""
    nodes = ast.walk(ast.parse(script.read_text(encoding="utf-8")))
    found = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
    return [
        (str(node.module), alias.name)
        for node in found
        for alias in node.names
        if str(node.module).partition(".")[0] in ("looplab", "support")
    ]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_what_a_benchmark_imports_is_there(script: Path) -> None:
    for module, name in imported(script):
        there = hasattr(importlib.import_module(module), name) or importlib.util.find_spec(f"{module}.{name}")
        assert there, f"{script.name}: {module} has no {name}"
