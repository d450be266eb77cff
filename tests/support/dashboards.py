"""The committed dashboards and their generator."""

import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.places import ROOT

PATHS = sorted((ROOT / "grafana" / "dashboards").glob("*.json"))


def load(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def each_panel() -> Iterator[Any]:
    for path in PATHS:
        for panel in load(path)["panels"]:
            yield pytest.param(panel, id=f"{path.stem}-{panel['id']}")


def generator() -> Any:
    sys.path.insert(0, str(ROOT / "grafana"))
    spec = importlib.util.spec_from_file_location("grafana_generate", ROOT / "grafana" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
