"""Dashboard: where everything is. It lists whatever dashboards there are."""

from generator import panels
from generator.dashboard import Dashboard, dashboard
from generator.styles import by_name, widths, yes_or_no
from generator.tables import listing

_PAGES = "http://127.0.0.1:${pages_port}"


def home(others: list[Dashboard]) -> Dashboard:
    """Return the dashboard that Grafana opens with."""
    return dashboard(
        "looplab-home",
        "Looplab",
        "Where everything is: dashboards, handouts, runs, report.",
        [(18, [(9, _ways(others)), (15, _runs())])],
        [],
        refresh="5s",
        since="2m",
    )


def _ways(others: list[Dashboard]) -> panels.Panel:
    dashboards = [f"- [{one['title']}](/d/{one['uid']}): {one['description']}" for one in others]
    return panels.words(
        "Where to look",
        "Begin with *Live loop* while a scenario runs. The list on the right shows which runs can be compared.",
        "\n".join(
            [
                "**Dashboards**",
                "",
                *dashboards,
                "",
                f"**Handouts**: [the tasks of each scenario]({_PAGES}/), or a scenario on the right.",
                "",
                "**Start a run**: `./lab run scenario2 --quick`; without `--quick` it is as long as published.",
                "",
                "**Report**: `./lab report` writes `report/index.html`: figures, tables and verdicts.",
            ]
        ),
    )


def _runs() -> panels.Panel:
    info, valid = (
        f"max by ({labels}) (last_over_time({name}[1m]))"
        for name, labels in (
            ("loop_run_info", "scenario, title, fidelity, run_id"),
            ("loop_run_valid", "scenario, fidelity"),
        )
    )
    verdict = yes_or_no("NO", "yes", neither="measuring")
    active = "on (scenario, fidelity) (last_over_time(loop_run_active[1m]) == 1)"
    handout = {"title": "Handout", "url": f"{_PAGES}/handouts/${{__value.raw}}.html", "targetBlank": True}
    return listing(
        "Newest run of each scenario",
        "The newest run of each scenario and fidelity in results/. A scenario's name opens its handout. An invalid run "
        "lacks a required treatment: its run.json and the report name it.",
        f"({info}\n* on (scenario, fidelity) group_left () {valid}\nunless {active})\nor ({info} and {active}) * 2",
        order="scenario",
        columns={"scenario": "scenario", "title": "title", "fidelity": "fidelity", "run_id": "run", "Value": "valid"},
        overrides=[
            by_name("scenario", {"links": [handout]}),
            by_name(
                "valid",
                {
                    "mappings": [verdict],
                    "custom.cellOptions": {"type": "color-text"},
                },
            ),
            *widths({"scenario": 135, "title": 235, "fidelity": 80, "valid": 75}),
        ],
    )
