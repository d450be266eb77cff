"""A whole dashboard: the places and ids of its panels, variables, links and the regions of the runs."""

from typing import Any

from generator.panels import DATASOURCE, Panel
from generator.styles import BAD, PART_COLOURS
from looplab.treatments.loads import loads

Dashboard = dict[str, Any]

# Grafana's grid is this wide.
GRID_WIDTH = 24
_PAGES_PORT = "pages_port"


def dashboard(
    uid: str,
    title: str,
    description: str,
    rows: list[tuple[Any, ...]],
    variables: list[dict[str, Any]],
    *,
    refresh: str,
    since: str,
) -> Dashboard:
    """Return a dashboard. `rows` are (height, panels, width of each; all alike if none); ids follow their order."""
    panels: list[Panel] = []
    y = 0
    for height, row, *own_widths in rows:
        x = 0
        for width, content in zip(own_widths or [GRID_WIDTH // len(row)] * len(row), row, strict=True):
            panels.append({"id": len(panels) + 1, **content, "gridPos": {"h": height, "w": width, "x": x, "y": y}})
            x += width
        y += height
    return {
        "uid": uid,
        "title": title,
        "description": description,
        "tags": ["looplab"],
        "schemaVersion": 42,
        "version": 1,
        "editable": False,
        "graphTooltip": 1,
        "refresh": refresh,
        "time": {"from": f"now-{since}", "to": "now"},
        "timepicker": {"refresh_intervals": ["1s", "2s", "5s", "10s", "30s", "1m"]},
        "timezone": "browser",
        "links": _links(),
        "templating": {"list": [*variables, _pages_port()]},
        "annotations": {"list": _regions()},
        "panels": panels,
    }


def _links() -> list[dict[str, Any]]:
    handout = f"http://127.0.0.1:${{{_PAGES_PORT}}}/"
    # Grafana's schema wants every one of these keys.
    usual = {"asDropdown": False, "icon": "external link", "includeVars": False, "keepTime": False, "tags": []}
    usual |= {"targetBlank": False, "tooltip": "", "url": ""}
    return [
        {**usual, "type": "dashboards", "title": "Dashboards", "tags": ["looplab"], "keepTime": True},
        {**usual, "type": "link", "title": "Handout", "icon": "doc", "targetBlank": True, "url": handout},
    ]


def _regions() -> list[dict[str, Any]]:
    """Return regions of the time axis: which run measured, which load ran, and each fault during a run.

    Each is a time in which an expression has values. The first of its labels is its title.
    """
    # They bridge scrapes that were missed.
    active = "max by (scenario, fidelity) (last_over_time(lab_run_active[15s]) == 1)"
    names = "|".join(sorted(load.role.name for load in loads().values()))
    running = f'max by (part) (last_over_time(lab_processes{{part=~"{names}"}}[15s]) > 0)'
    regions = {
        "Runs": ("rgba(100, 100, 100, 0.6)", active, ["scenario", "fidelity"]),
        "Treatments": (PART_COLOURS["stress"], running, ["part"]),
        "Faults": (BAD, "max by (fault) (lab:fault)", ["fault"]),
    }
    return [
        {
            "name": name,
            "datasource": DATASOURCE,
            "enable": True,
            "iconColor": colour,
            "target": {"refId": "Anno", "expr": expression, "interval": "5s"},
            "titleFormat": f"{{{{{labels[0]}}}}}",
            "textFormat": " ".join(f"{{{{{label}}}}}" for label in labels[1:]),
            "tagKeys": ",".join(labels),
        }
        for name, (colour, expression, labels) in regions.items()
    ]


def choice(name: str, label: str, metric: str, description: str, current: list[str] | str) -> dict[str, Any]:
    """Return a variable with the values that the label `name` of `metric` has.

    Several or all may be chosen where `current` is a list.
    """
    several = isinstance(current, list)
    value = ["$__all" if one == "All" else one for one in current] if several else current
    return {
        **_queried(name, description, f"label_values({metric}, {name})", {"text": current, "value": value}),
        "label": label,
        "multi": several,
        "includeAll": several,
        "allValue": ".+",
        "sort": 3,
    }


def _pages_port() -> dict[str, Any]:
    """Return a hidden variable: the port of the lab's pages, as the exporter reports it."""
    usual = {"text": "8080", "value": "8080"}
    query = "label_values(lab_pages_info, port)"
    return {**_queried(_PAGES_PORT, "Where the link to the handouts leads.", query, usual), "hide": 2}


def _queried(name: str, description: str, query: str, current: dict[str, Any]) -> dict[str, Any]:
    """Return a variable with values from Prometheus."""
    return {
        "type": "query",
        "name": name,
        "description": description,
        "datasource": DATASOURCE,
        "query": {"query": query, "qryType": 1, "refId": "PrometheusVariableQueryEditor-VariableQuery"},
        # Asked again with each change of the time range: a scenario's first run appears.
        "refresh": 2,
        "current": current,
        # Grafana has no defaults for these.
        **{"options": [], "regex": "", "sort": 0, "hide": 0, "multi": False, "includeAll": False},
    }
