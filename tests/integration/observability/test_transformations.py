"""The dashboards by Grafana's own code: its types (npm's @grafana/schema), and @grafana/data over real answers."""

from typing import Any

import pytest
from support.dashboards import PATHS, load
from support.grafana_code import run_program
from support.observed_lab import Lab, fill

PANELS = [panel for path in PATHS for panel in load(path)["panels"] if panel.get("transformations")]
# Of whole runs of the loop.
CURVES = [p for p in PANELS if p["type"] == "xychart" and 'experiment="loop"' in p["targets"][0]["expr"]]
TABLE = ["cell", "sent", "n", "avg", "p50", "p95", "p99"]
COLUMNS = {
    "L of each cell": TABLE,
    "$metric in numbers": TABLE,
    "Treatments: wanted and found": ["treatment", "wanted", "found", "required", "as wanted"],
}


@pytest.fixture(scope="module")
def transformed(measured: Lab) -> dict[str, Any]:
    """Panel title -> its frames."""
    jobs = [{"panel": panel, "answer": measured.query(fill(panel["targets"][0]["expr"]))} for panel in PANELS]
    results = run_program("transform.js", jobs)
    return {job["panel"]["title"]: frames for job, frames in zip(jobs, results, strict=True)}


@pytest.mark.parametrize("title", [panel["title"] for panel in CURVES])
def test_cdf_has_ascending_numeric_x_and_one_numeric_y_a_series(transformed: dict[str, Any], title: str) -> None:
    (frame,) = transformed[title]
    x, *curves = frame["fields"]
    assert [field["type"] for field in frame["fields"]] == ["number"] * len(frame["fields"])
    assert x["values"] == sorted(set(x["values"]))
    assert len(x["values"]) >= 193
    assert curves
    for curve in curves:
        if curve["name"].endswith(" published"):
            assert len([value for value in curve["values"] if value != "NaN"]) == 1, "a point a scenario and figure"
            # Missing values are drawn at 0; NaN is not drawn.
            assert None not in curve["values"]
        else:
            assert curve["values"] == sorted(curve["values"])
            assert curve["values"][-1] == pytest.approx(1, abs=0.2)
    names = [field["name"] for field in frame["fields"]]
    assert len(set(names)) == len(names)
    # The first override is x's: a name that matches nothing would leave x without its unit and scale.
    assert frame["overridden"][0] == [x["name"]]


@pytest.mark.parametrize("title", COLUMNS)
def test_a_table_has_its_columns_in_order(transformed: dict[str, Any], title: str) -> None:
    (frame,) = transformed[title]
    assert [field["display"] for field in frame["fields"]] == COLUMNS[title]
    assert frame["fields"][0]["values"]


def test_grafana_knows_every_key_and_value() -> None:
    whole = {path.stem: load(path) for path in PATHS}
    # Each kind of mistake that the program looks for: an unknown key, an unknown value.
    whole["spoilt"] = {**whole["compare-scenarios"], "tooltips": 1}
    complaints = run_program("schema.js", [{"name": name, "dashboard": one} for name, one in whole.items()])
    assert [(one["name"], one["part"]) for one in complaints] == [("spoilt", "dashboard")], complaints
