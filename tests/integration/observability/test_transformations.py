"""Dashboards by Grafana's own code (npm's @grafana/schema, @grafana/data over real answers), rules by promtool's."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.dashboards import PATHS, load
from support.grafana_code import run_program
from support.observed_lab import Lab, fill, targets
from support.places import ROOT
from support.wire import call

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


@pytest.mark.parametrize(
    ("asked", "file", "said"),
    [
        ("check config", "compose/prometheus/prometheus.yml", "rules found"),
        ("test rules", "tests/integration/observability/rules_test.yml", "SUCCESS"),
    ],
)
def test_configuration_and_rules_do_what_they_say(asked: str, file: str, said: str) -> None:
    assert said in call("promtool", *asked.split(), file, cwd=ROOT)


def test_an_earlier_runs_last_cell_is_not_the_current_one(tmp_path: Path) -> None:
    """Prometheus, restarted between two runs, offers the earlier one's series for five minutes more."""
    (expression,) = (target["expr"] for _name, panel, target in targets() if panel["title"] == "Deadline misses")
    series = {}
    for number, cell, beyond, answered in ((1000, "10 ms, QoS 0", 996, 1000), (2000, "100 ms, QoS 0", 1, 200)):
        run = f'experiment="loop",scenario="scenario5",fidelity="thesis",run_id="{number}"'
        labels = f'{run},cell="{cell}"'
        series |= {
            f'lab_figure{{{labels},figure="beyond interval"}}': beyond,
            f'lab_messages_total{{{labels},outcome="answered"}}': answered,
            f"lab_cell_current{{{labels}}}": 1,
            f"lab_run_started_timestamp_seconds{{{run}}}": number,
            f"lab_run_active{{{run}}}": 1,
        }
    expected = [{"labels": "{}", "value": 1 / 200}]
    test = {
        "interval": "1s",
        "input_series": [{"series": name, "values": f"{value}x9"} for name, value in series.items()],
        "promql_expr_test": [{"expr": fill(expression), "eval_time": "5s", "exp_samples": expected}],
    }
    file = tmp_path / "test.yml"
    file.write_text(json.dumps({"rule_files": [], "evaluation_interval": "1s", "tests": [test]}))
    call("promtool", "test", "rules", str(file))
