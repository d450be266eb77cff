"""The committed dashboards: what Grafana needs in them, and what students see.

What is drawn: tests/integration/observability, by Grafana's own code.
"""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.contrast import contrast
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
    assert len({panel["title"] for panel in found["panels"]}) == len(found["panels"])
    assert [annotation["name"] for annotation in found["annotations"]["list"]] == ["Runs", "Treatments", "Faults"]


# Grafana's grid on a projector of 1280 x 720: 24 columns wide, and 16 rows of 38 pixels below its bars.
COLUMN_PX, ROWS_SEEN = 1272 / 24, 16
# Inter at 14 pixels, the title's padding and the sign of its description.
CHARACTER_PX, AROUND_PX = 7.1, 50


@pytest.mark.parametrize("panel", list(each_panel()))
def test_panel(panel: dict[str, Any]) -> None:
    longest = panel["title"].replace("$metric", "O")
    width_px = panel["gridPos"]["w"] * COLUMN_PX - 8
    assert len(longest) * CHARACTER_PX + AROUND_PX <= width_px, "a projector cuts the title"
    assert panel["pluginVersion"].startswith("12.4."), "an empty one makes Grafana migrate the panel"
    assert len(panel["description"]) > 30
    if panel["type"] == "text":
        return
    assert all(one["datasource"]["uid"] == DATASOURCE_UID for one in (panel, *panel["targets"]))
    defaults, overrides = panel["fieldConfig"]["defaults"], panel["fieldConfig"]["overrides"]
    if panel["type"] == "xychart":
        # Grafana fills no variables in here.
        labels = [one["value"] for o in overrides for one in o["properties"] if one["id"] == "custom.axisLabel"]
        assert "$" not in str(labels)
        assert "./lab run " in panel["targets"][0]["expr"], "it names the command that fills it"
        # Readable from the last row of a class room.
        assert panel["gridPos"]["w"] >= 8
        assert panel["gridPos"]["h"] >= 10
    else:
        assert re.search(r"\./lab run [a-z0-9-]+ --quick|all is well", defaults["noValue"]), "what fills it"
    if panel["type"] == "timeseries":
        assert 5_000 <= defaults["custom"]["spanNulls"] <= 30_000


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


def colour_of(panel: dict[str, Any], series: str) -> str | None:
    for override in panel["fieldConfig"]["overrides"]:
        matcher = override["matcher"]
        pattern = matcher["options"].strip("/")
        if matcher["id"] == "byRegexp" and re.search(pattern, series):
            for prop in override["properties"]:
                if prop["id"] == "color":
                    return str(prop["value"]["fixedColor"])
    return None


def test_a_scenario_has_one_colour_everywhere() -> None:
    panels = [p for p in load(ROOT / "grafana/dashboards/compare-scenarios.json")["panels"] if p["type"] == "xychart"]
    assert len(panels) == 7
    colours = [
        {f"scenario{n}": colour_of(panel, f"scenario{n} thesis 20 ms QoS 0") for n in range(9)} for panel in panels
    ]
    assert all(found == colours[0] for found in colours)
    assert len(set(colours[0].values())) == 9
    assert None not in colours[0].values()
    assert colour_of(panels[0], "scenario2 published") == colours[0]["scenario2"]
    assert colour_of(panels[0], "scenario22: words thesis") is None


_PAGES = ("#FFFFFF", "#181B1F")


def test_every_colour_is_seen_on_a_light_and_on_a_dark_page() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in PATHS)
    found = set(re.findall(r'"(#[0-9A-Fa-f]{6})"', text))
    assert len(found) > 12
    # WCAG 2.2, 1.4.11: lines and other graphics need 3:1.
    assert {(c, page): contrast(c, page) for c in found for page in _PAGES if contrast(c, page) < 3} == {}


def test_live_tells_its_story_before_scrolling() -> None:
    found = load(ROOT / "grafana/dashboards/live.json")
    seen = [p["title"] for p in found["panels"] if p["gridPos"]["y"] + p["gridPos"]["h"] <= ROWS_SEEN]
    begun = [p["title"] for p in found["panels"] if p["gridPos"]["y"] < ROWS_SEEN - 1]
    assert seen == begun, "no panel is cut"
    assert len(found["panels"]) <= 8
    for word in ("Run", "Messages", "Latencies", "Send lateness", "Deadline misses"):
        assert any(title.startswith(word) for title in seen), word
    assert found["time"]["from"] == "now-2m"
    assert found["refresh"] in ("2s", "5s")
