"""Every expression of every panel, asked of a real Prometheus that scraped a real exporter of real runs."""

import contextlib
import json
import math
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.observed_lab import DASHBOARDS, Lab, fill, targets
from support.places import ROOT
from support.tables import rows
from support.waiting import until

from looplab.experiments.loop import LoopCell
from looplab.metrics.distributions import LATENCY_BOUNDS_S, bounds_s

EVERY_TARGET = [
    pytest.param(panel, target, id=f"{name}-{panel['id']}-{target['refId']}") for name, panel, target in targets()
]


def answer(lab: Lab, target: dict[str, Any]) -> list[dict[str, Any]]:
    expression = fill(target["expr"])
    return lab.query(expression) if target["instant"] else lab.query_range(expression, 600)


def numbers(series: list[dict[str, Any]]) -> list[float]:
    pairs = [pair for one in series for pair in one.get("values", [one.get("value")])]
    return [float(value) for _time, value in pairs]


def test_there_are_targets() -> None:
    assert len(EVERY_TARGET) > 40


@pytest.mark.parametrize(("panel", "target"), EVERY_TARGET)
def test_answers_after_the_runs_have_ended(measured: Lab, panel: dict[str, Any], target: dict[str, Any]) -> None:
    if panel["title"] == "Figures" and "asip" in target["expr"]:
        pytest.skip("asip-throughput alone has a figure; see its live.py")
    found = until(lambda: answer(measured, target), f"{panel['title']}: {fill(target['expr'])}")
    assert any(math.isfinite(value) for value in numbers(found))


@pytest.fixture(scope="module")
def quick_run_later(measured: Lab) -> None:
    """The newest run of scenario2 has 20 ms alone, an earlier one had 10 ms as well."""
    folder = measured.run_to_its_end("scenario2", INTERVALS_MS="20")
    whole = f'lab_messages_total{{run_id="{folder.name}",outcome="answered"}} == 40'
    until(lambda: measured.query(whole), "the quick run, whole, is in Prometheus")


def test_answers_while_a_run_goes_on(measured: Lab) -> None:
    run = measured.run("scenario2", MESSAGES=1200, INTERVALS_MS="20")
    try:
        until(lambda: measured.query('lab_messages_sent_total{scenario="scenario2"} > 200'), "the run goes on")
        time.sleep(1.5)
        live = [(panel, target) for name, panel, target in targets() if name == "live"]
        empty = [panel["title"] for panel, target in live if not answer(measured, target)]
        # Judged when the run ends; see the controller's state.json.
        assert set(empty) <= {"Treatments: wanted and found"}
        assert measured.query('lab_run_active{scenario="scenario2"} == 1')
        assert run.poll() is None, "the run ended before it was looked at"
    finally:
        # Seen enough: what an interrupted run leaves is tested in test_faults.py.
        run.terminate()
        run.wait(60)
    until(lambda: not measured.query("lab_run_active == 1"), "the run has ended")


def samples(folder: Path, interval: str) -> dict[str, np.ndarray]:
    """T, R and O in seconds of each message sent, straight from samples.csv; infinite without an answer."""
    sent = [row for row in rows(folder / "samples.csv") if row["interval_ms"] == interval]
    columns = {"T": "total_us", "R": "robot_us", "O": "overhead_us"}
    return {metric: np.array([float(row[name] or "inf") for row in sent]) / 1e6 for metric, name in columns.items()}


def newest(lab: Lab, scenario: str) -> Path:
    return sorted(lab.results.glob(f"*-{scenario}"))[-1]


@pytest.mark.parametrize("metric", ["T", "R", "O"])
@pytest.mark.parametrize("interval", ["20", "10"])
def test_drawn_cdf_is_numpys_ecdf_at_each_bound(
    measured: Lab, quick_run_later: None, metric: str, interval: str
) -> None:
    bounds = bounds_s(*LoopCell.R.decades) if metric == "R" else LATENCY_BOUNDS_S
    # The newest run of scenario2 had no 10 ms: what its predecessor measured there must not be shown as its own.
    scenarios = [f"scenario{number}" for number in range(9) if interval == "20" or number != 2]
    expected = {}
    for scenario in scenarios:
        values = samples(newest(measured, scenario), interval)[metric]
        # A latency in whole ns may be a bound itself: seconds as floats cannot tell.
        expected[scenario] = [float((values <= bound + 1e-12).mean()) for bound in bounds]

    def drawn() -> dict[str, list[float]]:
        curves = drawn_curves(measured, metric, interval)
        return {scenario: [height for _bound, height in sorted(curve.items())] for scenario, curve in curves.items()}

    # On a loaded machine the last second of a run may take another scrape.
    with contextlib.suppress(AssertionError):
        until(lambda: drawn() == {s: pytest.approx(heights, abs=1e-9) for s, heights in expected.items()}, "whole")
    found = drawn_curves(measured, metric, interval)
    assert sorted(found) == scenarios
    for scenario, curve in found.items():
        heights = [curve[bound] for bound in bounds]
        assert len(curve) == len(bounds)
        assert heights == pytest.approx(expected[scenario], abs=1e-9), scenario
        assert heights == sorted(heights)
        assert max(heights) <= 1


def drawn_curves(lab: Lab, metric: str, interval: str) -> dict[str, dict[float, float]]:
    """Scenario -> bound in seconds -> height, as the comparison's uppermost panel draws them."""
    panel = next(panel for name, panel, _t in targets() if name == "compare-scenarios" and panel["id"] == 1)
    found = lab.query(fill(panel["targets"][0]["expr"], {"$metric": metric, "$cell": f"{interval} ms, QoS 0"}))
    curves: dict[str, dict[float, float]] = {}
    for one in found:
        name, _, cell = one["metric"]["series"].partition(" ")
        scenario = name.partition(":")[0]
        assert cell == f"thesis {interval} ms, QoS 0", "a name without its interval would merge two curves"
        curves.setdefault(scenario, {})[float(one["metric"]["le"])] = float(one["value"][1])
    return curves


def test_table_is_numpys_statistics_within_a_bucket(measured: Lab) -> None:
    panel = next(p for n, p, _t in targets() if n == "compare-scenarios" and "in numbers" in p["title"])
    found = measured.query(fill(panel["targets"][0]["expr"], {"$cell": "20 ms, QoS 0"}))
    cells = {(one["metric"]["series"].split()[0], one["metric"]["stat"]): float(one["value"][1]) for one in found}
    for number in range(9):
        scenario = f"scenario{number}"
        values = samples(newest(measured, scenario), "20")["O"]
        values = values[np.isfinite(values)]
        assert (cells[scenario, "n"], cells[scenario, "avg"]) == (len(values), pytest.approx(values.mean(), rel=1e-9))
        # A quantile among 40 values lies between neighbours; Prometheus takes one of their buckets, 5 % wide.
        ordered, at = np.sort(values), round(0.95 * len(values))
        assert ordered[at - 2] * 0.95 <= cells[scenario, "p95"] <= ordered[min(at + 1, len(values) - 1)] * 1.05


def test_published_points_stand_beside_the_curves(measured: Lab) -> None:
    panel = next(p for n, p, _t in targets() if "Figure 6.4" in p["title"])
    found = measured.query(fill(panel["targets"][0]["expr"]))
    points = {
        one["metric"]["series"]: (float(one["metric"]["le"]), float(one["value"][1]))
        for one in found
        if one["metric"]["series"].endswith(" published") and math.isfinite(float(one["value"][1]))
    }
    assert set(points) == {f"scenario{number} published" for number in (1, 2, 4, 5)}
    bound, share = points["scenario2 published"]
    assert share == 0.85
    assert bound == pytest.approx(0.0195, rel=0.025)
    # As many rows as the curve has, so that the panel draws nothing at 0.
    rows = [one for one in found if one["metric"]["series"] == "scenario2 published"]
    assert len(rows) == len(LATENCY_BOUNDS_S)


def test_every_variable_finds_its_values(measured: Lab) -> None:
    """label_values(metric, label), as the data source asks it."""
    for path in DASHBOARDS:
        for variable in json.loads(path.read_text())["templating"]["list"]:
            if variable["type"] != "query" or (path.stem, variable["name"]) == ("asip", "figure"):
                continue
            asked = re.fullmatch(r"label_values\((\w+(?:{.*})?), (\w+)\)", variable["query"]["query"])
            assert asked, variable["name"]
            metric, label = asked.groups()
            found = {
                one["metric"].get(label)
                for one in measured.query(f"group by ({label}) (last_over_time({metric}[10m]))")
            }
            assert found, f"{path.stem}: {variable['name']}"
            assert None not in found
            if variable["name"] == "pages_port":
                assert found == {"8080"}


def test_regions_of_the_runs(measured: Lab) -> None:
    expression = json.loads((ROOT / "grafana/dashboards/live.json").read_text())["annotations"]["list"][0]["target"][
        "expr"
    ]
    found = {one["metric"]["scenario"] for one in measured.query_range(expression, 600)}
    # These runs last about a second: now and then one ends between two scrapes.
    assert len(found & {f"scenario{number}" for number in range(9)}) >= 6, found


def test_loads_and_faults_are_marked(measured: Lab) -> None:
    """What each means is tested in rules_test.yml; here no load and no fault was made, and Prometheus accepts both."""
    annotations = json.loads((ROOT / "grafana/dashboards/live.json").read_text())["annotations"]["list"]
    marks = {one["name"]: measured.query_range(one["target"]["expr"], 600) for one in annotations[1:]}
    assert set(marks) == {"Treatments", "Faults"}
    # Other tests of this machine may run loads of their own.
    assert {one["metric"]["part"] for one in marks["Treatments"]} <= {"stress", "flood"}
    assert not [one for one in marks["Faults"] if one["metric"]["fault"] == "bridge offline"]
