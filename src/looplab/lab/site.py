"""What the lab's pages hold: newest run, reports on all runs, handouts. looplab.lab.pages serves it.

python3 -m looplab.lab.site FOLDER      writes the site of the lab at LAB_ROOT
"""

import itertools
import os
import sys
from pathlib import Path
from typing import Any

from looplab.exercises.exercise import exercises, read_exercise
from looplab.exercises.printed import printed
from looplab.experiments.registry import EXPERIMENTS
from looplab.lab.pages import elsewhere, stored
from looplab.lab.site_docs import write_docs
from looplab.report.page import page
from looplab.report.shell import page_name, write_reports
from looplab.report.stored import StoredRun, read_run
from looplab.run.folder import age
from looplab.run.life import run_table, summary

MOST_RUNS = 12


def write_site(root: Path, out: Path) -> None:
    """Write front page, reports and handouts of the lab at `root` to `out`."""
    out.mkdir()
    runs = newest(root / "results")
    context: dict[str, Any] = {
        "runs": runs,
        "summary": summary(EXPERIMENTS[runs[0].experiment], [runs[0].document]) if runs else "",
        "table": run_table(EXPERIMENTS[runs[0].experiment], runs[0].document) if runs else "",
        "reports": _reports(root, out / "reports") if runs else [],
        "handouts": _handouts(root, out / "handouts"),
        "docs": "docs/README.html",
        "elsewhere": elsewhere(os.environ),
    }
    write_docs(root / "docs", out / "docs")
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


def _reports(root: Path, out: Path) -> list[dict[str, str]]:
    """Write the reports on all runs; return for each its title, its page and the figure of its claims."""
    write_reports(root / "results", (), out, EXPERIMENTS)
    reports = []
    for experiment in EXPERIMENTS.values():
        name = page_name(experiment)
        figure = f"figures/{experiment.name.replace('-', '_')}_claims.svg"
        if (out / name).is_file():
            title = experiment.title.removeprefix("The experiment ")
            reports.append({"title": title, "page": name, "figure": figure if (out / figure).is_file() else ""})
    return reports


def _handouts(root: Path, out: Path) -> list[tuple[str, str]]:
    """Write the handouts as pages to print; return name and title of each."""
    out.mkdir()
    pages = []
    for name in exercises(root):
        exercise = read_exercise(root, name, EXPERIMENTS)
        # An exercise without goals has no handout.
        if exercise.card.goals:
            (out / f"{name}.html").write_text(printed(root, name, EXPERIMENTS), encoding="utf-8")
            pages.append((name, exercise.title))
    return pages


if __name__ == "__main__":
    write_site(Path(os.environ["LAB_ROOT"]), Path(sys.argv[1]))
