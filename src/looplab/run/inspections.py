"""Who looked inside a run while it went on: ./lab adds lines to its folder, the end of the run copies them to run.json.

A look costs the machine time, so the run must name it. Standard library only.
"""

import contextlib
import csv
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from looplab.run.folder import UNFINISHED

FILE = "inspections.csv"
FIELDS = ("at", "command", "event")


@contextlib.contextmanager
def noted(results: Path, command: str) -> Iterator[None]:
    """Note in each run that goes on when `command` began and when it ended.

    A PermissionError of a run's folder is raised before anything is looked at.
    """
    runs = [*results.glob(UNFINISHED)]
    for run in runs:
        _add(run, command, "begins")
    try:
        yield
    finally:
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
