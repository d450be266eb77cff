"""The lab's pages, http://127.0.0.1:8080: newest run, reports, handouts; rendered when a run has ended.

Never while a run goes on: rendering is a process of its own (looplab.lab.site), which ends as soon as a run begins, and
whose libraries take no memory beside one.
"""

import http.server
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

from looplab.lab.settings import address_of
from looplab.run.folder import LOCK, UNFINISHED
from looplab.system.json_service import SILENCE_S, BoundedServer
from looplab.system.lock import holder

PORT = 8080
COMMAND = ("-m", "looplab.lab.site")
# This folder is in memory; the link `current` names the site that is served.
SITE = Path("/pages")
CURRENT = "current"
TEMPLATES = (Path(__file__).parent, Path(__file__).parents[1] / "report")
EVERY_S, WATCHED_EVERY_S = 2.0, 0.2
# Runs of one command follow each other within this time.
QUIET_S = 10.0
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def run_goes_on(results: Path) -> bool:
    """Return whether a controller has begun a run and not ended it."""
    return any(holder(folder / LOCK) for folder in results.glob(UNFINISHED))


def stored(results: Path) -> frozenset[str]:
    """Return the folders of the runs that have ended."""
    return frozenset(entry.name for entry in os.scandir(results) if entry.name[0] != "." and entry.is_dir())


def elsewhere(settings: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Return name, address and purpose of what else the lab serves."""
    grafana = ("Grafana", address_of(settings, "GRAFANA"), "the run that goes on, live")
    prometheus = ("Prometheus", address_of(settings, "PROMETHEUS"), "every figure as a query")
    return [prometheus] if settings.get("GRAFANA") == "off" else [grafana, prometheus]


def write_first_page(out: Path) -> None:
    """Write the page that is served until the first rendering. The libraries of a report would load beside a run."""
    from jinja2 import Environment, FileSystemLoader

    out.mkdir()
    templates = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True)
    context = {"waiting": True, "elsewhere": elsewhere(os.environ)}
    (out / "index.html").write_text(templates.get_template("pages.html.j2").render(context), encoding="utf-8")


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
        # Its worker processes belong to its session, so that one signal ends them all.
        with subprocess.Popen(command, start_new_session=True) as process:
            while process.poll() is None:
                if run_goes_on(self._results):
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                    shutil.rmtree(fresh, ignore_errors=True)
                    self._busy_at = time.monotonic()
                    return False
                time.sleep(WATCHED_EVERY_S)
        # Rendering is not tried again for a run that cannot be shown; the former site stays.
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


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves the current site: files, and no list of a folder."""

    timeout = SILENCE_S

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
    """Serve the site and keep it up to date."""
    write_first_page(SITE / "waiting")
    publish(SITE, SITE / "waiting")
    server = BoundedServer(("", PORT), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    renderer = Renderer(Path(os.environ["LAB_ROOT"]), SITE)
    while True:
        renderer.look()
        time.sleep(EVERY_S)


if __name__ == "__main__":
    main()
