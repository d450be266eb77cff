"""The dashboards against Grafana's own types (npm's @grafana/schema): what it does not know, it ignores silently."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from support.grafana_code import run_program
from support.observed_lab import DASHBOARDS

Dashboard = dict[str, Any]


def xy_chart(dashboard: Dashboard) -> dict[str, Any]:
    return next(panel for panel in dashboard["panels"] if panel["type"] == "xychart")


# What was put in that Grafana does not know, and where the types must find it.
SPOILT: dict[str, tuple[Callable[[Dashboard], object], str]] = {
    "tooltips": (lambda d: d.update(tooltips=1), "dashboard"),
    "hidden": (lambda d: d["templating"]["list"][0].update(hidden=True), "variable"),
    "expression": (lambda d: d["annotations"]["list"][0]["target"].update(expression="up"), "annotation"),
    "markers": (lambda d: xy_chart(d)["fieldConfig"]["defaults"]["custom"].update(markers=1), "defaults"),
    "points and lines": (
        lambda d: xy_chart(d)["fieldConfig"]["defaults"]["custom"].update(show="points and lines"),
        "defaults",
    ),
    "axisTitle": (
        lambda d: xy_chart(d)["fieldConfig"]["overrides"][0]["properties"].append(
            {"id": "custom.axisTitle", "value": 1}
        ),
        "override",
    ),
    "units": (lambda d: xy_chart(d)["fieldConfig"]["defaults"].update(units="s"), "defaults"),
    "automatic": (lambda d: xy_chart(d)["options"].update(mapping="automatic"), "options"),
    "instantly": (lambda d: xy_chart(d)["targets"][0].update(instantly=True), "query"),
}


@pytest.fixture(scope="module")
def complaints() -> dict[str, list[dict[str, str]]]:
    """What the types say against each committed dashboard, and against one that was spoilt in each of the ways."""
    whole = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in DASHBOARDS}
    for name, (spoil, _where) in SPOILT.items():
        spoil(whole.setdefault(name, copy.deepcopy(whole["compare-scenarios"])))
    found = run_program("schema.js", [{"name": name, "dashboard": dashboard} for name, dashboard in whole.items()])
    by_name: dict[str, list[dict[str, str]]] = {name: [] for name in ("", *whole)}
    for complaint in found:
        by_name[complaint["name"]].append(complaint)
    return by_name


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_grafana_knows_every_key_and_value(complaints: dict[str, list[dict[str, str]]], path: Any) -> None:
    assert complaints[""] == [], "the types themselves"
    assert complaints[path.stem] == []


@pytest.mark.parametrize("name", SPOILT)
def test_what_grafana_does_not_know_is_found(complaints: dict[str, list[dict[str, str]]], name: str) -> None:
    (complaint,) = complaints[name]
    assert name in complaint["message"]
    assert SPOILT[name][1] in complaint["part"]
