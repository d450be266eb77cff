"""The committed dashboards and their generator."""

import importlib
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
    return importlib.import_module("generate")
