"""Who looked inside a run while it went on: ./lab adds lines to its folder, the end of the run copies them to run.json.

A look costs the machine time, so the run must name it. Standard library only.
"""

import contextlib
import csv
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from looplab.run.folder import UNFINISHED

FILE = "inspections.csv"
FIELDS = ("at", "command", "event")
# A run that begins while a command looks on is noted within this time.
STEP_S = 1.0


@contextlib.contextmanager
def noted(results: Path, command: str) -> Iterator[None]:
    """Note in each run that goes on meanwhile when `command` began and when it ended.

    A PermissionError of the first run's folder is raised before anything is looked at.
    """
    runs: set[Path] = set()
    over = threading.Event()

    def note_new_runs() -> None:
        for run in set(results.glob(UNFINISHED)) - runs:
            runs.add(run)
            _add(run, command, "begins")

    def keep_noting() -> None:
        while not over.wait(STEP_S):
            with contextlib.suppress(OSError):
                note_new_runs()

    note_new_runs()
    watcher = threading.Thread(target=keep_noting, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        for run in runs:
            with contextlib.suppress(OSError):
                _add(run, command, "ends")


def read(run: Path) -> list[dict[str, str]]:
    """Return what run.json holds of the inspections of a run, in their order; [] if nobody looked."""
    try:
        with (run / FILE).open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file, FIELDS))
    except FileNotFoundError:
        return []


def _add(run: Path, command: str, event: str) -> None:
    # The folder gets another name when its run ends: then there is nothing to note.
    with contextlib.suppress(FileNotFoundError), (run / FILE).open("a", encoding="utf-8", newline="") as file:
        csv.writer(file).writerow([f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", command, event])
