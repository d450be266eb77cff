"""The committed dashboards: what Grafana needs in them, and what students need."""

import importlib.util
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.places import ROOT

PATHS = sorted((ROOT / "grafana" / "dashboards").glob("*.json"))
DATASOURCE_UID = "looplab-prometheus"


def load(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def each_panel() -> Iterator[Any]:
    for path in PATHS:
        for panel in load(path)["panels"]:
            yield pytest.param(panel, id=f"{path.stem}-{panel['id']}")


def is_cdf(panel: Any) -> bool:
    return panel["type"] == "xychart" and "_bucket{" in panel["targets"][0]["expr"]


# The keys that Grafana's provisioning reads (pkg/services/provisioning/{datasources,dashboards}/types.go, and the
# documentation's "Provision Grafana" for `prune` and the Prometheus data source); it ignores any other silently.
PROVISIONING = {
    "datasources": {
        "": {"apiVersion", "prune", "deleteDatasources", "datasources"},
        "datasources": {
            *("name", "uid", "type", "access", "url", "orgId", "orgName", "version", "isDefault", "editable"),
            *("user", "database", "basicAuth", "basicAuthUser", "withCredentials"),
            *("correlations", "jsonData", "secureJsonData"),
        },
        "jsonData": {
            *("httpMethod", "timeInterval", "queryTimeout", "prometheusType", "prometheusVersion", "cacheLevel"),
            *("manageAlerts", "disableRecordingRules", "incrementalQuerying", "incrementalQueryOverlapWindow"),
            *("defaultEditor", "customQueryParameters", "disableMetricsLookup", "exemplarTraceIdDestinations"),
        },
    },
    "dashboards": {
        "": {"apiVersion", "providers"},
        "providers": {
            *("name", "orgId", "type", "folder", "folderUid", "editable", "options"),
            *("disableDeletion", "updateIntervalSeconds", "allowUiUpdates"),
        },
        "options": {"path", "foldersFromFilesStructure"},
    },
}


def generator() -> Any:
    sys.path.insert(0, str(ROOT / "grafana"))
    spec = importlib.util.spec_from_file_location("grafana_generate", ROOT / "grafana" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_committed_files_are_what_the_generator_writes() -> None:
    for path, text in generator().files().items():
        assert path.read_text(encoding="utf-8") == text, f"run PYTHONPATH=src python3 grafana/generate.py: {path}"


def test_the_dashboard_of_a_new_experiment_is_one_module() -> None:
    """The generator lists the folder; nothing in it or in generate.py names an experiment."""
    modules = {module.__name__.rpartition(".")[2] for module in generator().modules()}
    assert modules == {"loop", "qos_delay"}
    for path in [ROOT / "grafana/generate.py", *(ROOT / "grafana/generator").glob("*.py")]:
        assert not re.search(r"qos.delay|experiments\.[a-z]", path.read_text(encoding="utf-8")), path


def test_dashboards_have_fixed_uids() -> None:
    uids = {load(path)["uid"] for path in PATHS}
    assert uids == {"looplab-live", "looplab-compare", "looplab-host", "looplab-delay"}


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_dashboard_stands_alone(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    found = load(path)
    assert "${DS_" not in text
    assert "__inputs" not in found
    assert "id" not in found, "Grafana gives ids out itself"
    assert not any(link["url"].startswith("http") and "127.0.0.1" not in link["url"] for link in found["links"])
    assert set(re.findall(r'"uid": "([^"]*)"', text)) == {found["uid"], DATASOURCE_UID}
    ids = [panel["id"] for panel in found["panels"]]
    assert ids == list(range(1, len(ids) + 1))
    titles = [panel["title"] for panel in found["panels"]]
    assert len(set(titles)) == len(titles)
    assert any(link["title"] == "Handout" for link in found["links"])
    assert [annotation["name"] for annotation in found["annotations"]["list"]] == ["Runs"]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_panels_do_not_overlap_and_fit(path: Path) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in load(path)["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        # Readable from the last row of a class room.
        assert panel["type"] != "xychart" or (place["w"] >= 8 and place["h"] >= 10)
        taken |= cells


@pytest.mark.parametrize("panel", list(each_panel()))
def test_panel(panel: dict[str, Any]) -> None:
    assert panel["pluginVersion"].startswith("12.4."), "an empty one makes Grafana migrate the panel"
    if panel["type"] == "text":
        return
    assert panel["datasource"] == {"type": "prometheus", "uid": DATASOURCE_UID}
    assert len(panel["description"]) > 30
    ref_ids = [target["refId"] for target in panel["targets"]]
    assert ref_ids == [chr(ord("A") + number) for number in range(len(ref_ids))]
    for target in panel["targets"]:
        assert target["instant"] is not target["range"]
        assert target["expr"].count("(") == target["expr"].count(")")
    if panel.get("transformations"):
        assert len(panel["targets"]) == 1
        assert panel["targets"][0]["format"] == "table"
        assert panel["targets"][0]["instant"]
    if panel["type"] in ("timeseries", "stat", "xychart"):
        assert panel["fieldConfig"]["defaults"]["unit"]
    if panel["type"] == "timeseries":
        assert panel["fieldConfig"]["defaults"]["custom"]["axisLabel"]


@pytest.mark.parametrize(
    "panel",
    [param for param in each_panel() if is_cdf(param.values[0])],
)
def test_cdf_panel(panel: dict[str, Any]) -> None:
    expression = panel["targets"][0]["expr"]
    for selector in re.findall(r"latency_seconds_bucket\{([^}]*)\}", expression):
        assert 'le!="+Inf"' in selector
    assert "last_over_time" in expression
    defaults = panel["fieldConfig"]["defaults"]
    assert (defaults["unit"], defaults["min"], defaults["max"]) == ("percentunit", 0, 1.04)
    assert defaults["custom"]["show"] == "points+lines"
    kinds = [step["id"] for step in panel["transformations"]]
    assert kinds == ["sortBy", "groupingToMatrix", "convertFieldType", "sortBy"]
    x_field = panel["transformations"][2]["options"]["conversions"][0]["targetField"]
    x_look = next(o for o in panel["fieldConfig"]["overrides"] if o["matcher"]["options"] == x_field)
    properties = {p["id"]: p["value"] for p in x_look["properties"]}
    assert properties["unit"] == "s"
    assert properties["custom.scaleDistribution"] == {"type": "log", "log": 10}
    assert properties["custom.axisLabel"]
    assert 0 < properties.get("min", 0.0001) < properties["max"] in (1, 10)
    assert "decimals" not in properties | defaults, "0 rounds the bounds of the time axis to whole seconds"
    assert "$" not in properties["custom.axisLabel"], "Grafana fills no variables in here"


def colour_of(panel: dict[str, Any], series: str) -> str | None:
    for override in panel["fieldConfig"]["overrides"]:
        matcher = override["matcher"]
        pattern = matcher["options"].strip("/")
        if matcher["id"] == "byRegexp" and re.search(pattern, series):
            for prop in override["properties"]:
                if prop["id"] == "color":
                    return str(prop["value"]["fixedColor"])
    return None


def test_a_scenario_has_one_colour_everywhere_and_no_two_the_same() -> None:
    panels = [p for p in load(ROOT / "grafana/dashboards/compare-scenarios.json")["panels"] if p["type"] == "xychart"]
    assert len(panels) == 7
    colours = [
        {f"scenario{n}": colour_of(panel, f"scenario{n} thesis 20 ms QoS 0") for n in range(9)} for panel in panels
    ]
    assert all(found == colours[0] for found in colours)
    assert len(set(colours[0].values())) == 9
    assert None not in colours[0].values()
    assert colour_of(panels[0], "scenario2 published") == colours[0]["scenario2"]
    assert colour_of(panels[0], "scenario22 thesis") is None


def _seen_by(colour: str, matrix: list[list[float]]) -> list[float]:
    linear = [(int(colour[i : i + 2], 16) / 255) ** 2.2 for i in (1, 3, 5)]
    return [max(0.0, sum(a * b for a, b in zip(row, linear, strict=True))) ** (1 / 2.2) for row in matrix]


# Viénot, Brettel and Mollon's approximations in linear RGB.
_PROTAN = [[0.11238, 0.88762, 0.0], [0.11238, 0.88762, 0.0], [0.00401, -0.00401, 1.0]]
_DEUTAN = [[0.29275, 0.70725, 0.0], [0.29275, 0.70725, 0.0], [-0.02234, 0.02234, 1.0]]


@pytest.mark.parametrize("matrix", [_PROTAN, _DEUTAN], ids=["protan", "deutan"])
def test_scenarios_that_are_compared_differ_for_the_colour_blind_in_hue_or_in_dash(matrix: list[list[float]]) -> None:
    generator()
    from generator.experiments.loop.compare import FIGURES
    from generator.experiments.loop.looks import SCENARIO_COLOURS, SCENARIO_DASHES

    for figure in FIGURES:
        names = [f"scenario{number}" for number in figure[2]]
        for a in names:
            for b in names:
                if a < b:
                    one, two = _seen_by(SCENARIO_COLOURS[a], matrix), _seen_by(SCENARIO_COLOURS[b], matrix)
                    apart = sum((x - y) ** 2 for x, y in zip(one, two, strict=True)) ** 0.5
                    assert apart > 0.1 or SCENARIO_DASHES.get(a) != SCENARIO_DASHES.get(b), (a, b, apart)
                    assert apart > 0.05, (a, b, apart)


def test_the_five_published_figures_are_drawn() -> None:
    text = (ROOT / "grafana/dashboards/compare-scenarios.json").read_text(encoding="utf-8")
    for figure in ("6.1", "6.2", "6.3", "6.4", "6.5"):
        assert f"Figure {figure} (" in text


def test_published_points_lie_near_a_bound() -> None:
    generator()
    from generator.experiments.loop.thesis import nearest_bound_s, rules

    assert nearest_bound_s(0.009, "O") == pytest.approx(0.009, rel=0.025)
    assert nearest_bound_s(70e-6, "R") == pytest.approx(70e-6, rel=0.025)
    found = list(rules())
    assert sum(record == "published_latency_cdf_ratio" for record, _v, _l in found) == 17
    # Each answered cell of the tables: six figures of T and O, one of R.
    assert sum(record == "published_latency_seconds" for record, _v, _l in found) == 26 * 7


@pytest.mark.parametrize("kind", PROVISIONING)
def test_grafana_knows_every_key_of_the_provisioning(kind: str) -> None:
    known = PROVISIONING[kind]
    paths = [path for path in (ROOT / "grafana/provisioning" / kind).iterdir() if path.suffix in (".yaml", ".yml")]
    assert paths
    for path in paths:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        # Without a version Grafana reads the file as one of before version 5.
        assert document["apiVersion"] == 1
        assert document.keys() <= known[""]
        listed, nested = list(known)[1:]
        assert document[listed]
        for entry in document[listed]:
            assert entry.keys() <= known[listed]
            assert entry[nested].keys() <= known[nested]
            # It would be taken for a variable of Grafana's environment.
            assert "$" not in str(entry)


def test_a_custom_variables_query_gives_the_options_it_stores() -> None:
    """Grafana rebuilds the options from the query: split at each comma without a backslash, text and value at ` : `."""
    found = [v for path in PATHS for v in load(path)["templating"]["list"] if v["type"] == "custom"]
    assert found
    for variable in found:
        options = [part.replace(r"\,", ",").strip() for part in re.findall(r"(?:\\,|[^,])+", variable["query"])]
        stored = [f"{option['text']} : {option['value']}" for option in variable["options"]]
        assert options == stored
        assert variable["current"]["value"] in [option["value"] for option in variable["options"]]


def test_the_link_to_the_handouts_follows_the_exporters_port() -> None:
    service = yaml.safe_load((ROOT / "compose/observability.yaml").read_text())["services"]["exporter"]
    port = service["environment"]["EXPORTER_PUBLISHED_PORT"]
    assert service["ports"] == [f"${{LAB_BIND:-127.0.0.1}}:{port}:9101"]
    for path in PATHS:
        found = load(path)
        (link,) = [link for link in found["links"] if link["title"] == "Handout"]
        assert link["url"] == "http://127.0.0.1:${exporter_port}/handout"
        (variable,) = [v for v in found["templating"]["list"] if v["name"] == "exporter_port"]
        assert (variable["hide"], variable["query"]["query"]) == (2, "label_values(lab_exporter_info, port)")


def test_provisioning_and_compose_agree_with_the_dashboards() -> None:
    sources = yaml.safe_load((ROOT / "grafana/provisioning/datasources/prometheus.yaml").read_text())
    assert [source["uid"] for source in sources["datasources"]] == [DATASOURCE_UID]
    assert sources["datasources"][0]["jsonData"]["timeInterval"] == "1s"
    providers = yaml.safe_load((ROOT / "grafana/provisioning/dashboards/looplab.yaml").read_text())["providers"]
    grafana = yaml.safe_load((ROOT / "compose/grafana.on.yaml").read_text())["services"]["grafana"]
    mounts = dict(volume.split(":")[:2] for volume in grafana["volumes"])
    assert mounts["../grafana/dashboards"] == providers[0]["options"]["path"]
    environment = grafana["environment"]
    home = Path(environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
    assert (ROOT / "grafana" / "dashboards" / home.name).exists()
    assert environment["GF_AUTH_ANONYMOUS_ORG_ROLE"] == "Viewer"
    assert environment["GF_DASHBOARDS_MIN_REFRESH_INTERVAL"] == "1s"
    assert environment["GF_PLUGINS_PREINSTALL_DISABLED"] == "true"
    assert "GF_SECURITY_ADMIN_PASSWORD" not in environment
    assert all("${LAB_BIND:-127.0.0.1}:" in port for port in grafana["ports"])
