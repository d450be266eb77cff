"""The committed dashboards: what Grafana needs in them, and what students need.

What is drawn: tests/integration/observability, by Grafana's own code.
"""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.dashboards import PATHS, each_panel, generator, load
from support.places import ROOT

DATASOURCE_UID = "looplab-prometheus"


def test_committed_files_are_what_the_generator_writes() -> None:
    for path, text in generator().files().items():
        assert path.read_text(encoding="utf-8") == text, f"run grafana/generate.py (see grafana/README.md): {path}"


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_dashboard_stands_alone(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    found = load(path)
    assert "id" not in found, "Grafana gives ids out itself"
    assert all(link["url"].startswith("http://127.0.0.1") or not link["url"] for link in found["links"])
    assert set(re.findall(r'"uid": "([^"]*)"', text)) == {found["uid"], DATASOURCE_UID}
    ids = [panel["id"] for panel in found["panels"]]
    assert ids == list(range(1, len(ids) + 1))
    titles = [panel["title"] for panel in found["panels"]]
    assert len(set(titles)) == len(titles)
    assert any(link["title"] == "Handout" for link in found["links"])
    assert [annotation["name"] for annotation in found["annotations"]["list"]] == ["Runs", "Treatments", "Faults"]


@pytest.mark.parametrize("panel", list(each_panel()))
def test_panel(panel: dict[str, Any]) -> None:
    assert panel["pluginVersion"].startswith("12.4."), "an empty one makes Grafana migrate the panel"
    assert len(panel["description"]) > 30
    if panel["type"] == "text":
        return
    assert panel["datasource"] == {"type": "prometheus", "uid": DATASOURCE_UID}
    assert all(target["datasource"] == panel["datasource"] for target in panel["targets"])
    defaults, overrides = panel["fieldConfig"]["defaults"], panel["fieldConfig"]["overrides"]
    if panel["type"] in ("timeseries", "stat", "xychart"):
        assert defaults["unit"]
    if panel["type"] in ("timeseries", "stat", "table"):
        assert re.search(r"\./lab run [a-z0-9-]+ --quick|all is well", defaults["noValue"]), "what fills it"
    if panel["type"] == "timeseries":
        assert defaults["custom"]["axisLabel"]
        assert 5_000 <= defaults["custom"]["spanNulls"] <= 30_000
    if panel["type"] == "xychart":
        # It names its x, and the command that fills it.
        assert "\\" not in next(p["value"] for p in overrides[0]["properties"] if p["id"] == "displayName")
        assert "or on () label_replace(" in panel["targets"][0]["expr"]
        assert "./lab run " in panel["targets"][0]["expr"]
        # Readable from the last row of a class room.
        assert panel["gridPos"]["w"] >= 8
        assert panel["gridPos"]["h"] >= 10
        # Grafana fills no variables in here.
        labels = [one["value"] for o in overrides for one in o["properties"] if one["id"] == "custom.axisLabel"]
        assert "$" not in str(labels)


def test_a_part_is_red_only_while_a_fault_is_marked() -> None:
    panels = load(ROOT / "grafana/dashboards/machine-and-parts.json")["panels"]
    (parts,) = [panel for panel in panels if panel["title"] == "Parts"]
    asked = re.findall(r'lab:fault\{fault="([^"]+)"\}', str([one["expr"] for one in parts["targets"]]))
    rules = yaml.safe_load((ROOT / "compose/prometheus/rules.yml").read_text())["groups"]
    marked = [
        rule["labels"]["fault"] for group in rules for rule in group["rules"] if rule.get("record") == "lab:fault"
    ]
    assert asked == marked
    words = parts["fieldConfig"]["overrides"][0]["properties"][0]["value"][0]["options"]
    assert (words["0"]["text"], words["2"]["text"]) == ("down", "not needed")


def test_provisioning_and_compose_agree_with_the_dashboards() -> None:
    sources = yaml.safe_load((ROOT / "grafana/provisioning/datasources/prometheus.yaml").read_text())
    assert [source["uid"] for source in sources["datasources"]] == [DATASOURCE_UID]
    assert sources["datasources"][0]["jsonData"]["timeInterval"] == "1s"
    providers = yaml.safe_load((ROOT / "grafana/provisioning/dashboards/looplab.yaml").read_text())["providers"]
    grafana = yaml.safe_load((ROOT / "compose/observe.yaml").read_text())["services"]["grafana"]
    mounts = dict(volume.split(":")[:2] for volume in grafana["volumes"])
    assert mounts["../grafana/dashboards"] == providers[0]["options"]["path"]
    assert grafana["environment"]["GF_AUTH_ANONYMOUS_ORG_ROLE"] == "Viewer"
    assert Path(grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]).name == "home.json"
    assert all("${LAB_BIND:-127.0.0.1}:" in port for port in grafana["ports"])


def test_the_first_page_leads_everywhere() -> None:
    found = load(ROOT / "grafana/dashboards/home.json")
    (text,) = [p["options"]["content"] for p in found["panels"] if p["type"] == "text"]
    others = {load(path)["uid"] for path in PATHS} - {found["uid"]}
    assert set(re.findall(r"\(/d/([^)]+)\)", text)) == others
    assert "(http://127.0.0.1:${pages_port}/)" in text
    assert "./lab report" in text
