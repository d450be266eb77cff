"""Tables beside a report: what a publication prints, and what it claims."""

import csv
from pathlib import Path


def printed(module: str, name: str) -> list[dict[str, str]]:
    """Return the lines of a CSV file in the folder `published` beside `module`, a path."""
    return table(Path(module).resolve().parent / "published" / name)


def table(path: Path) -> list[dict[str, str]]:
    """Return the lines of a CSV file."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
