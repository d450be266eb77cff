"""What the lab's pages hold: newest run, reports on all runs, handouts. looplab.lab.pages serves it.

python3 -m looplab.lab.site FOLDER [waiting]      writes the site of the lab at LAB_ROOT; `waiting` is its first page
"""

import itertools
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from looplab.exercises.exercise import exercises, read_exercise
from looplab.experiments.registry import EXPERIMENTS
from looplab.lab.pages import stored
from looplab.report.page import page
from looplab.report.stored import StoredRun, read_run
from looplab.run.folder import age
from looplab.run.life import run_table, summary

DEFAULT_PORTS = {"GRAFANA": 3000, "PROMETHEUS": 9090}
MOST_RUNS = 12


def write_site(root: Path, out: Path, *, waiting: bool = False) -> None:
    """Write front page, reports and handouts of the lab at `root` to `out`; `waiting` leaves out what takes time."""
    out.mkdir()
    runs = [] if waiting else newest(root / "results")
    context: dict[str, Any] = {
        "waiting": waiting,
        "runs": runs,
        "summary": summary(EXPERIMENTS[runs[0].experiment], [runs[0].document]) if runs else "",
        "table": run_table(EXPERIMENTS[runs[0].experiment], runs[0].document) if runs else "",
        "reports": _reports(root, out / "reports") if runs else [],
        "handouts": [] if waiting else _handouts(root, out / "handouts"),
        "docs": "" if waiting else _docs(root, out / "docs"),
        "elsewhere": elsewhere(os.environ),
    }
    (out / "index.html").write_text(page(Path(__file__).with_name("pages.html.j2"), context), encoding="utf-8")


def newest(results: Path) -> list[StoredRun]:
    """Return the newest complete runs that can be printed, the newest first."""
    read = (read_run(results / name, EXPERIMENTS) for name in sorted(stored(results), key=age, reverse=True))
    return list(itertools.islice((run for run in read if isinstance(run, StoredRun) and _is_printable(run)), MOST_RUNS))


def _is_printable(run: StoredRun) -> bool:
    try:
        summary(EXPERIMENTS[run.experiment], [run.document])
        run_table(EXPERIMENTS[run.experiment], run.document)
    except Exception:
        # It may be older than what the table shows, or somebody else's.
        return False
    return True


def elsewhere(settings: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Return name, address and purpose of what else the lab serves."""
    host = settings.get("LAB_BIND") or "127.0.0.1"
    host = "127.0.0.1" if host == "0.0.0.0" else host
    ports = {name: settings.get(f"LAB_{name}_PORT") or default for name, default in DEFAULT_PORTS.items()}
    grafana = ("Grafana", f"http://{host}:{ports['GRAFANA']}", "the run that goes on, live")
    prometheus = ("Prometheus", f"http://{host}:{ports['PROMETHEUS']}", "every figure as a query")
    return [prometheus] if settings.get("GRAFANA") == "off" else [grafana, prometheus]


def _reports(root: Path, out: Path) -> list[dict[str, str]]:
    """Write the reports on all runs; return for each its title, its page and the figure of its claims."""
    from looplab.report.shell import page_name, write_reports

    pages = {path.name for path in write_reports(root / "results", (), out, EXPERIMENTS).pages}
    reports = []
    for experiment in EXPERIMENTS.values():
        name = page_name(experiment)
        figure = f"figures/{experiment.name.replace('-', '_')}_claims.svg"
        if name in pages:
            title = experiment.title.removeprefix("The experiment ")
            reports.append({"title": title, "page": name, "figure": figure if (out / figure).is_file() else ""})
    return reports


def _handouts(root: Path, out: Path) -> list[tuple[str, str]]:
    """Write the handouts as pages to print; return name and title of each."""
    from looplab.exercises.printed import printed

    out.mkdir()
    pages = []
    for name in exercises(root):
        exercise = read_exercise(root, name, EXPERIMENTS)
        # An exercise without goals has no handout.
        if exercise.card.goals:
            (out / f"{name}.html").write_text(printed(root, name, EXPERIMENTS, linked=True), encoding="utf-8")
            pages.append((name, exercise.title))
    return pages


def _docs(root: Path, out: Path) -> str:
    """Write the documentation; return where it begins."""
    from looplab.lab.site_docs import write_docs

    write_docs(root / "docs", out)
    return "docs/README.html"


if __name__ == "__main__":
    write_site(Path(os.environ["LAB_ROOT"]), Path(sys.argv[1]), waiting="waiting" in sys.argv[2:])
