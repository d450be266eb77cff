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
    """Those whose x is time; of the running sweep alone there is less than of whole runs."""
    held = [p for p in panels_with_transformations() if p["type"] == "xychart"]
    return [pytest.param(p, id=p["title"]) for p in held if "loop_latency_seconds_bucket" in p["targets"][0]["expr"]]


@pytest.mark.parametrize("panel", cdf_panels())
def test_cdf_has_ascending_numeric_x_and_one_numeric_y_a_series(transformed: dict[str, Any], panel: Any) -> None:
    (frame,) = transformed[panel["title"]]
    x, *curves = frame["fields"]
    assert [field["type"] for field in frame["fields"]] == ["number"] * len(frame["fields"])
    assert x["values"] == sorted(x["values"])
    # The running cell's curves end at p99.9, a few bounds above the slowest answers.
    least = 60 if "of the cell being measured" in panel["title"] else 193
    assert len(set(x["values"])) == len(x["values"]) >= least
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


@pytest.mark.parametrize(
    ("title", "curves", "highest"),
    [
        ("Figure 3a: mean latency, both links alike", 1, 0.240),
        ("Figure 3b: latency over end-to-end delay", 1, 2.0),
        ("Figure 4: MQTT packets in a TCP segment", 1, 24.0),
        # 20 answers of the sweep that was seen; its folder says that 600 were sent.
        ("CDF of the cell that is measured now", 1, 20 / 600),
    ],
)
def test_panels_of_the_sweep_have_ascending_numeric_x(
    transformed: dict[str, Any], title: str, curves: int, highest: float
) -> None:
    (frame,) = transformed[title]
    x, *held = frame["fields"]
    assert [field["type"] for field in frame["fields"]] == ["number"] * (1 + curves)
    assert x["values"] == sorted(set(x["values"]))
    assert held[0]["values"][-1] == pytest.approx(highest, rel=0.03)
    assert frame["overridden"][0] == [x["name"]]


def test_tables_of_the_sweep_have_their_columns(transformed: dict[str, Any]) -> None:
    (frame,) = transformed["Cells in numbers"]
    assert [field["display"] for field in frame["fields"]] == ["links", "n", "delay", "avg", "p50", "p95", "p99", "max"]
    delays = [[float(part) for part in re.findall(r"[0-9.]+", name)[:2]] for name in frame["fields"][0]["values"]]
    assert len(delays) == 10
    assert delays == sorted(delays, key=lambda pair: (sum(pair), pair)), "2-2 before 10-10"
    (places,) = transformed["Figure 5: the broker's place"]
    names = [field["display"] for field in places["fields"]]
    assert names[0] == "links"
    assert len(places["fields"][0]["values"]) == 5


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
    assert len(frame["fields"]) == 10
    curves = [field["name"] for field in frame["fields"][1:]]
    assert frame["overridden"][1:10] == [[name] for name in curves]


def test_table_has_its_columns_in_order(transformed: dict[str, Any]) -> None:
    (frame,) = transformed["$metric in numbers"]
    assert [field["display"] for field in frame["fields"]] == ["cell", "n", "min", "avg", "p50", "p95", "p99", "max"]
    assert len(frame["fields"][0]["values"]) == 9
    low, middle, high = (next(f for f in frame["fields"] if f["display"] == name) for name in ("min", "p50", "max"))
    for a, b, c in zip(low["values"], middle["values"], high["values"], strict=True):
        assert 0 < a <= b <= c < 10


def test_published_table_shows_what_the_thesis_printed(transformed: dict[str, Any]) -> None:
    (frame,) = transformed["$metric as published"]
    columns = {field["display"]: field["values"] for field in frame["fields"]}
    assert list(columns) == ["cell", "min", "avg", "max"]
    at = columns["cell"].index("scenario1 20ms QoS0")
    assert [columns[name][at] for name in ("min", "avg", "max")] == [0.006858, 0.0087447, 0.024667]


def test_treatments_read_as_sentences(transformed: dict[str, Any]) -> None:
    (frame,) = transformed["Treatments: wanted and found"]
    assert [field["display"] for field in frame["fields"]] == ["treatment", "wanted", "found", "required", "as wanted"]
    assert frame["overridden"] == [["Value"], ["what"], ["required"], ["Value"]]
