"""Dashboard: where everything is. It lists whatever dashboards there are."""

from generator import panels
from generator.dashboard import Dashboard, dashboard
from generator.queries import last, newest_runs
from generator.styles import override, widths, yes_or_no
from generator.tables import listing

_PAGES = "http://127.0.0.1:${pages_port}"


def home(others: list[Dashboard]) -> Dashboard:
    """Return the dashboard that Grafana opens with."""
    return dashboard(
        "looplab-home",
        "Looplab",
        "Where everything is: dashboards, handouts, runs, report.",
        [(18, [_ways(others), _runs()], 10, 14)],
        [],
        refresh="5s",
        since="2m",
    )


def _ways(others: list[Dashboard]) -> panels.Panel:
    text = [
        *(f"- [{one['title']}](/d/{one['uid']}): {one['description']}" for one in others),
        f"\n**Handouts**: [the tasks of each scenario]({_PAGES}/), or a scenario on the right.",
        "\n**Start a run**: `./lab run scenario2 --quick`; without `--quick` it is as long as published.",
        "\n**Report**: `./lab report` writes `report/index.html`: figures, tables and verdicts.",
    ]
    about = "Begin with *Live* while a scenario runs. The list on the right shows which runs can be compared."
    return panels.words("Where to look", about, "\n".join(text))


def _runs() -> panels.Panel:
    info = f"max by (scenario, title, fidelity, run_id) ({last('lab_run_info')} and {newest_runs()})"
    valid = f"max by (run_id) ({last('lab_run_valid')})"
    verdict = yes_or_no("NO", "yes", neither="no end seen")
    handout = {"title": "Handout", "url": f"{_PAGES}/handouts/${{__value.raw}}.html", "targetBlank": True}
    return listing(
        "Newest run of each scenario",
        "The newest run of each scenario and fidelity within seven days. A scenario's name opens its handout. An "
        "invalid run lacks a required treatment: its run.json and the report name it.",
        f"{info} * on (run_id) group_left () {valid}\nor {info} * 2",
        columns={"scenario": "scenario", "title": "title", "fidelity": "fidelity", "run_id": "run", "Value": "valid"},
        overrides=[
            override("scenario", {"links": [handout]}),
            override("valid", {"mappings": [verdict], "custom.cellOptions": {"type": "color-text"}}),
            *widths({"scenario": 110, "fidelity": 75, "run": 235, "valid": 100}),
        ],
    )
