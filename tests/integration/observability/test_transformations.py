"""Every panel's transformations, run by Grafana's own code (npm's @grafana/data) over the real answers."""

import json
import re
from typing import Any

import pytest
from support.grafana_code import run_program
from support.observed_lab import DASHBOARDS, Lab, fill


def panels_with_transformations() -> list[dict[str, Any]]:
    return [
        panel for path in DASHBOARDS for panel in json.loads(path.read_text())["panels"] if panel.get("transformations")
    ]


@pytest.fixture(scope="module")
def transformed(measured: Lab) -> dict[str, Any]:
    """Panel title -> its frames."""
    jobs = [
        {"panel": panel, "answer": measured.query(fill(panel["targets"][0]["expr"]))}
        for panel in panels_with_transformations()
    ]
    results = run_program("transform.js", jobs)
    return {job["panel"]["title"]: frames for job, frames in zip(jobs, results, strict=True)}


def cdf_panels() -> list[Any]:
    """Those of whole runs of the loop."""
    held = [p for p in panels_with_transformations() if p["type"] == "xychart"]
    return [pytest.param(p, id=p["title"]) for p in held if 'experiment="loop"' in p["targets"][0]["expr"]]


@pytest.mark.parametrize("panel", cdf_panels())
def test_cdf_has_ascending_numeric_x_and_one_numeric_y_a_series(transformed: dict[str, Any], panel: Any) -> None:
    (frame,) = transformed[panel["title"]]
    x, *curves = frame["fields"]
    assert [field["type"] for field in frame["fields"]] == ["number"] * len(frame["fields"])
    assert x["values"] == sorted(x["values"])
    assert len(set(x["values"])) == len(x["values"]) >= 193
    assert all(isinstance(value, float | int) for value in x["values"])
    assert curves
    for curve in curves:
        if curve["name"].endswith(" published"):
            drawn = [value for value in curve["values"] if value != "NaN"]
            assert len(drawn) == 1, "one published point a scenario and figure"
            # Missing values are drawn at 0; NaN is not drawn.
            assert None not in curve["values"]
        else:
            assert all(isinstance(value, float | int) for value in curve["values"])
            assert curve["values"] == sorted(curve["values"])
            assert curve["values"][-1] == pytest.approx(1, abs=0.2)
    names = [field["name"] for field in frame["fields"]]
    assert len(set(names)) == len(names)
    # The first override is x's: a name that matches nothing would leave x without its unit and scale.
    assert frame["overridden"][0] == [x["name"]]


def test_the_table_of_an_experiment_has_a_line_a_cell(transformed: dict[str, Any]) -> None:
    (frame,) = transformed["L of each cell"]
    assert [field["display"] for field in frame["fields"]] == ["cell", "sent", "n", "avg", "p50", "p95", "p99"]
    assert frame["fields"][0]["values"]


def test_figures_show_their_scenarios_and_published_points(transformed: dict[str, Any]) -> None:
    (frame,) = next(frames for title, frames in transformed.items() if title.startswith("Figure 6.4"))
    names = {
        re.split("[: ]", field["name"])[0] + (" p" if "published" in field["name"] else "")
        for field in frame["fields"][1:]
    }
    expected = {f"scenario{n}" for n in (1, 2, 4, 5)}
    assert names == expected | {f"{name} p" for name in expected}


def test_all_nine_scenarios_get_their_own_look(transformed: dict[str, Any]) -> None:
    (frame,) = next(frames for title, frames in transformed.items() if title.startswith("CDF of $metric"))
    curves = [field["name"] for field in frame["fields"][1:]]
    assert len({name.partition(":")[0] for name in curves}) == 9


def test_table_has_its_columns_in_order(transformed: dict[str, Any]) -> None:
    (frame,) = transformed["$metric in numbers"]
    assert [field["display"] for field in frame["fields"]] == ["cell", "sent", "n", "avg", "p50", "p95", "p99"]
    low, middle, high = (next(f for f in frame["fields"] if f["display"] == name) for name in ("p50", "p95", "p99"))
    for a, b, c in zip(low["values"], middle["values"], high["values"], strict=True):
        assert 0 < a <= b <= c < 10


def test_treatments_read_as_sentences(transformed: dict[str, Any]) -> None:
    (frame,) = transformed["Treatments: wanted and found"]
    assert [field["display"] for field in frame["fields"]] == ["treatment", "wanted", "found", "required", "as wanted"]
    assert frame["overridden"] == [["Value"], ["what"], ["required"], ["Value"]]
