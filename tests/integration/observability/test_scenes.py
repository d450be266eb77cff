"""The dashboards opened by Grafana's own code (npm's @grafana/scenes and @grafana/prometheus) over a real Prometheus.

Its packages are 640 MB: only with LAB_GRAFANA_SCENES=1.
"""

import json
from typing import Any

import pytest
import yaml
from support.grafana_code import run_program
from support.observed_lab import DASHBOARDS, Lab, fill
from support.places import ROOT

pytestmark = pytest.mark.flag("LAB_GRAFANA_SCENES")

Opened = dict[str, dict[str, Any]]
# Beside what each dashboard opens with.
CELLS = ["20 ms, QoS 0", "10 ms, QoS 0"]
CHOSEN = {"scenario": ["scenario1", "scenario4"], "cell": CELLS, "metric": "R"}


@pytest.fixture(scope="module")
def opened(measured: Lab) -> Opened:
    """File name -> what Grafana makes of it; `chosen` is the comparison with CHOSEN at its top."""
    dashboards = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in DASHBOARDS}
    sources = yaml.safe_load((ROOT / "grafana/provisioning/datasources/prometheus.yaml").read_text())
    asked = [{"dashboard": dashboard, "chosen": {}} for dashboard in dashboards.values()]
    asked.append({"dashboard": dashboards["compare-scenarios"], "chosen": CHOSEN})
    given = {
        "prometheus": f"http://127.0.0.1:{measured.ports['prometheus']}",
        "datasource": sources["datasources"][0],
        "opened": asked,
    }
    return dict(zip([*dashboards, "chosen"], run_program("open.js", given, folder="scenes"), strict=True))


def options(opened: Opened, dashboard: str, variable: str) -> list[str]:
    return [value for _label, value in opened[dashboard]["variables"][variable]["options"]]


def test_every_variable_gets_its_values(opened: Opened) -> None:
    for dashboard in opened.values():
        for name, variable in dashboard["variables"].items():
            assert variable["error"] is None, name
            assert variable["options"], name
    assert options(opened, "compare-scenarios", "scenario") == [f"scenario{number}" for number in range(9)]
    assert options(opened, "compare-scenarios", "cell") == sorted(CELLS)


def test_a_choice_with_a_comma_is_one(opened: Opened) -> None:
    found = opened["compare-scenarios"]["variables"]["metric"]["options"]
    assert found == [["O, without the robot", "O"], ["T, in all", "T"], ["R, at the robot", "R"]]


def test_the_link_to_the_handouts_leads_to_the_pages(opened: Opened) -> None:
    for dashboard in opened.values():
        assert dashboard["links"]["Handout"] == "http://127.0.0.1:8080/"


def test_nothing_is_left_to_fill_in_the_titles(opened: Opened) -> None:
    assert not [title for dashboard in opened.values() for title in dashboard["titles"] if "$" in title]
    assert opened["chosen"]["titles"][0].startswith("CDF of R")


@pytest.mark.parametrize("name", [*(path.stem for path in DASHBOARDS), "chosen"])
def test_every_query_as_grafana_asks_it_is_answered(measured: Lab, opened: Opened, name: str) -> None:
    for query in opened[name]["queries"]:
        # What the data source's server part fills in is left.
        expression = fill(query["expr"])
        found = measured.query(expression) if query["instant"] else measured.query_range(expression, 600)
        assert found, f"{query['panel']}: {expression}"


def test_what_is_chosen_is_what_is_drawn(measured: Lab, opened: Opened) -> None:
    found = measured.query(fill(opened["chosen"]["queries"][0]["expr"]))
    names = {one["metric"]["series"].replace("\N{NO-BREAK SPACE}", " ") for one in found}
    words = ("scenario1: robot", "scenario4: stress, broker first")
    assert names == {f"{scenario} thesis {cell}" for scenario in words for cell in CELLS}


def test_runs_treatments_and_faults_keep_query_and_step(opened: Opened) -> None:
    committed = [one["target"]["expr"] for one in json.loads(DASHBOARDS[0].read_text())["annotations"]["list"]]
    assert len(committed) == 3
    for dashboard in opened.values():
        assert [one["target"]["expr"] for one in dashboard["annotations"]] == committed
        assert {one["target"]["interval"] for one in dashboard["annotations"]} == {"5s"}
