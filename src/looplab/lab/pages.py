"""The lab's pages, http://127.0.0.1:8080: newest run, reports, handouts; rendered when a run has ended.

Never while a run goes on: rendering is a process of its own, which ends as soon as a run begins.
"""

import contextlib
import http.server
import itertools
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from looplab.exercises.exercise import exercises, read_exercise
from looplab.experiments.registry import EXPERIMENTS
from looplab.report.page import page
from looplab.report.stored import StoredRun, read_run
from looplab.run.life import run_summary, run_table

PORT, DEFAULT_PORTS = 8080, {"GRAFANA": 3000, "PROMETHEUS": 9090}
COMMAND = ("-m", "looplab.lab.pages")
# In memory; `current` is a link to the folder that is served.
SITE = Path("/pages")
CURRENT = "current"
EVERY_S, WATCHED_EVERY_S = 2.0, 0.2
# Runs of one command follow each other within this time.
QUIET_S = 10.0
# A run whose files nobody has touched for so long is dead; the longest cell takes half of it.
DEAD_S = 3600.0
MOST_RUNS = 12
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def run_goes_on(results: Path) -> bool:
    """Return whether a controller has begun a run and not ended it."""
    alive = time.time() - DEAD_S
    with contextlib.suppress(OSError):
        begun = [folder for folder in results.glob(".*.partial") if folder.is_dir()]
        return any(path.stat().st_mtime > alive for folder in begun for path in (folder, *folder.iterdir()))
    # It has just ended: look again.
    return True


def stored(results: Path) -> frozenset[str]:
    """Return the folders of the runs that have ended."""
    return frozenset(entry.name for entry in os.scandir(results) if entry.name[0] != "." and entry.is_dir())


class Renderer:
    """Keeps the site up to date with results/ of the lab at `root`."""

    def __init__(self, root: Path, site: Path) -> None:
        self._root, self._site = root, site
        self._results = root / "results"
        self._shown: frozenset[str] | None = None
        self._busy_at = time.monotonic()

    def look(self) -> None:
        """Render what has been stored since the last time, once no run has gone on for QUIET_S."""
        if run_goes_on(self._results):
            self._busy_at = time.monotonic()
            return
        runs = stored(self._results)
        if runs != self._shown and time.monotonic() - self._busy_at >= QUIET_S and self.render():
            self._shown = runs

    def render(self) -> bool:
        """Render the site, then serve it; return False if a run began meanwhile."""
        fresh = self._site / f"{time.monotonic_ns()}"
        command = [sys.executable, *COMMAND, str(fresh)]
        # Those who draw belong to its session, and end with it.
        with subprocess.Popen(command, start_new_session=True) as process:
            while process.poll() is None:
                if run_goes_on(self._results):
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                    shutil.rmtree(fresh, ignore_errors=True)
                    self._busy_at = time.monotonic()
                    return False
                time.sleep(WATCHED_EVERY_S)
        # A run that cannot be shown must not be tried again and again; what was there stays.
        if process.returncode == 0:
            publish(self._site, fresh)
        return True


def publish(site: Path, fresh: Path) -> None:
    """Serve the folder `fresh` from now on."""
    link, former = site / f"{CURRENT}.new", (site / CURRENT).resolve()
    link.symlink_to(fresh.name)
    link.replace(site / CURRENT)
    if former != site / CURRENT:
        shutil.rmtree(former)


def write_site(root: Path, out: Path, *, waiting: bool = False) -> None:
    """Write front page, reports and handouts of the lab at `root` to `out`; `waiting` leaves out what takes time."""
    out.mkdir()
    runs = [] if waiting else newest(root / "results")
    context: dict[str, Any] = {
        "waiting": waiting,
        "runs": runs,
        "summary": run_summary(EXPERIMENTS[runs[0].experiment], runs[0].document) if runs else "",
        "table": run_table(EXPERIMENTS[runs[0].experiment], runs[0].document) if runs else "",
        "reports": _reports(root, out / "reports") if runs else [],
        "handouts": [] if waiting else _handouts(root, out / "handouts"),
        "elsewhere": elsewhere(os.environ),
    }
    (out / "index.html").write_text(page(Path(__file__).with_name("pages.html.j2"), context), encoding="utf-8")


def newest(results: Path) -> list[StoredRun]:
    """Return the newest complete runs, the newest first."""
    read = (read_run(results / name, EXPERIMENTS) for name in sorted(stored(results), reverse=True))
    return list(itertools.islice((run for run in read if isinstance(run, StoredRun)), MOST_RUNS))


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
        # Other exercises have no text to print.
        if exercise.card.goals:
            (out / f"{name}.html").write_text(printed(root, name, EXPERIMENTS), encoding="utf-8")
            pages.append((name, exercise.title))
    return pages


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves the current site: files, and no list of a folder."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given, directory=str(SITE / CURRENT))

    def list_directory(self, path: Any) -> None:
        self.send_error(404)

    def end_headers(self) -> None:
        for name, value in HEADERS.items():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, *_words: Any) -> None:
        """Print nothing: `docker compose up` shows a run's progress there."""


def main() -> None:
    """Serve the site and keep it up to date, or write it to the folder that is named."""
    root = Path(os.environ["LAB_ROOT"])
    if sys.argv[1:]:
        write_site(root, Path(sys.argv[1]))
        return
    write_site(root, SITE / "waiting", waiting=True)
    publish(SITE, SITE / "waiting")
    server = http.server.ThreadingHTTPServer(("", PORT), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    renderer = Renderer(root, SITE)
    while True:
        renderer.look()
        time.sleep(EVERY_S)


if __name__ == "__main__":
    main()
