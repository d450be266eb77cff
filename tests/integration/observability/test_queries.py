"""Every expression of every panel, asked of a real Prometheus that scraped a real exporter of real runs."""

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.dashboards import PATHS, load
from support.observed_lab import SCENARIOS, Lab, fill, targets
from support.places import ROOT
from support.tables import rows
from support.waiting import until

from looplab.metrics.distributions import LATENCY_BOUNDS_S

EVERY_TARGET = [
    pytest.param(panel, target, id=f"{name}-{panel['id']}-{target['refId']}") for name, panel, target in targets()
]


def answer(lab: Lab, target: dict[str, Any]) -> list[dict[str, Any]]:
    expression = fill(target["expr"])
    return lab.query(expression) if target["instant"] else lab.query_range(expression, 600)


@pytest.mark.parametrize(("panel", "target"), EVERY_TARGET)
def test_answers_after_the_runs_have_ended(measured: Lab, panel: dict[str, Any], target: dict[str, Any]) -> None:
    if panel["title"] == "Figures" and "asip" in target["expr"]:
        pytest.skip("asip-throughput alone has a figure; see its live.py")
    found = until(lambda: answer(measured, target), f"{panel['title']}: {fill(target['expr'])}")
    pairs = [pair for one in found for pair in one.get("values", [one.get("value")])]
    assert any(math.isfinite(float(value)) for _time, value in pairs)


def test_the_first_page_has_a_line_with_a_name_for_each_run(measured: Lab) -> None:
    (target,) = [target for name, _panel, target in targets() if name == "home"]
    lines = [one["metric"] for one in answer(measured, target)]
    assert len({line["run_id"] for line in lines}) == len(lines)
    assert all(line.get("scenario") for line in lines)


def test_answers_while_a_run_goes_on(measured: Lab) -> None:
    # It goes on for as long as a busy machine needs.
    run = measured.run("scenario2", MESSAGES=6000, INTERVALS_MS="20")
    live = [(panel, target) for name, panel, target in targets() if name == "live"]

    def empty() -> set[str]:
        return {panel["title"] for panel, target in live if not answer(measured, target)}

    try:
        until(lambda: measured.query('lab_messages_sent_total{scenario="scenario2"} > 50'), "the run goes on")
        # Judged when the run ends; see the controller's state.json.
        until(lambda: empty() <= {"Treatments: wanted and found"}, f"an answer to each query: {empty()}", 10)
        assert measured.query('lab_run_active{scenario="scenario2"} == 1')
        assert run.poll() is None, "the run ended before it was looked at"
    finally:
        # Seen enough: what an interrupted run leaves is tested in test_faults.py.
        run.terminate()
        run.wait(60)
    until(lambda: not measured.query("lab_run_active == 1"), "the run has ended")


@pytest.fixture(scope="module")
def quick_run_later(measured: Lab) -> None:
    """The newest run of scenario2 has 20 ms alone, an earlier one had 10 ms as well."""
    folder = measured.run_to_its_end("scenario2", INTERVALS_MS="20")
    whole = f'lab_messages_total{{run_id="{folder.name}",outcome="answered"}} == 40'
    until(lambda: measured.query(whole), "the quick run, whole, is in Prometheus")


@pytest.mark.usefixtures("quick_run_later")
def test_progress_and_messages_are_the_newest_runs(measured: Lab) -> None:
    until(lambda: measured.panel("live", "Messages").get("sent") == [40], "one interval")
    assert measured.panel("live", "Messages")["progress"] == [1]


def samples(lab: Lab, scenario: str, interval: str) -> np.ndarray:
    """Return O in seconds of each message of the newest run, from samples.csv; infinite without an answer."""
    folder: Path = sorted(lab.results.glob(f"*-{scenario}"))[-1]
    sent = [row for row in rows(folder / "samples.csv") if row["interval_ms"] == interval]
    return np.array([float(row["overhead_us"] or "inf") for row in sent]) / 1e6


@pytest.mark.usefixtures("quick_run_later")
@pytest.mark.parametrize("interval", ["20", "10"])
def test_drawn_cdf_is_numpys_ecdf_at_each_bound(measured: Lab, interval: str) -> None:
    # The newest run of scenario2 had no 10 ms: what its predecessor measured there must not be shown as its own.
    scenarios = [name for name in SCENARIOS if interval == "20" or name != "scenario2"]
    # A latency in whole ns may be a bound itself: seconds as floats cannot tell.
    expected = {
        scenario: pytest.approx(
            [float((samples(measured, scenario, interval) <= bound + 1e-12).mean()) for bound in LATENCY_BOUNDS_S],
            abs=1e-9,
        )
        for scenario in scenarios
    }
    panel = next(panel for name, panel, _t in targets() if name == "compare-scenarios" and panel["id"] == 1)
    expression = fill(panel["targets"][0]["expr"], {"$metric": "O", "$cell": f"{interval} ms, QoS 0"})

    def drawn() -> dict[str, list[float]]:
        """The heights of each scenario's curve, as the comparison's uppermost panel draws them."""
        curves: dict[str, dict[float, float]] = {}
        for one in measured.query(expression):
            name, _, cell = one["metric"]["series"].partition(" ")
            assert cell == f"thesis {interval} ms, QoS 0", "a name without its interval would merge two curves"
            curve = curves.setdefault(name.partition(":")[0], {})
            curve[float(one["metric"]["le"])] = float(one["value"][1])
        return {scenario: [curve[bound] for bound in sorted(curve)] for scenario, curve in curves.items()}

    # On a loaded machine the last second of a run may take another scrape.
    until(lambda: drawn() == expected, "whole curves")


def test_table_is_numpys_statistics_within_a_bucket(measured: Lab) -> None:
    panel = next(p for n, p, _t in targets() if n == "compare-scenarios" and "in numbers" in p["title"])
    found = measured.query(fill(panel["targets"][0]["expr"], {"$cell": "20 ms, QoS 0"}))
    cells = {(one["metric"]["series"].split()[0], one["metric"]["stat"]): float(one["value"][1]) for one in found}
    for scenario in SCENARIOS:
        values = samples(measured, scenario, "20")
        values = values[np.isfinite(values)]
        assert (cells[scenario, "n"], cells[scenario, "avg"]) == (len(values), pytest.approx(values.mean(), rel=1e-9))
        # A quantile among 40 values lies between neighbours; Prometheus takes one of their buckets, 5 % wide.
        ordered, at = np.sort(values), round(0.95 * len(values))
        assert ordered[at - 2] * 0.95 <= cells[scenario, "p95"] <= ordered[min(at + 1, len(values) - 1)] * 1.05


def test_published_points_stand_beside_the_curves(measured: Lab) -> None:
    panel = next(p for n, p, _t in targets() if "Figure 6.4" in p["title"])
    found = [one for one in measured.query(fill(panel["targets"][0]["expr"])) if one["metric"]["series"].endswith("ed")]
    points = {
        one["metric"]["series"].partition(" ")[0]: (float(one["metric"]["le"]), float(one["value"][1]))
        for one in found
        if math.isfinite(float(one["value"][1]))
    }
    assert points.keys() == set(SCENARIOS)
    assert points["scenario2"] == (pytest.approx(0.0195, rel=0.025), 0.85)


def test_every_variable_finds_its_values(measured: Lab) -> None:
    """label_values(metric, label), as the data source asks it."""
    for path in PATHS:
        for variable in load(path)["templating"]["list"]:
            if variable["type"] != "query" or (path.stem, variable["name"]) == ("asip", "figure"):
                continue
            asked = re.fullmatch(r"label_values\((\w+(?:{.*})?), (\w+)\)", variable["query"]["query"])
            assert asked, variable["name"]
            metric, label = asked.groups()
            found = measured.query(f"group by ({label}) (last_over_time({metric}[10m]))")
            assert found, f"{path.stem}: {variable['name']}"
            assert None not in {one["metric"].get(label) for one in found}


def test_runs_loads_and_faults_are_marked(measured: Lab) -> None:
    """What each means is tested in rules_test.yml; here no fault was made, and Prometheus accepts all three."""
    annotations = load(ROOT / "grafana/dashboards/live.json")["annotations"]["list"]
    runs, loads, faults = (measured.query_range(one["target"]["expr"], 600) for one in annotations)
    # These runs last about a second: now and then one ends between two scrapes.
    assert len({one["metric"]["scenario"] for one in runs} & set(SCENARIOS)) >= 3
    # Other tests of this machine may run loads of their own.
    assert {one["metric"]["part"] for one in loads} <= {"stress", "flood"}
    assert not [one for one in faults if one["metric"]["fault"] == "bridge offline"]
