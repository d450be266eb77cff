"""Tables beside a report: what a publication prints, and what it claims."""

import csv
from pathlib import Path


def printed(module: str, name: str) -> list[dict[str, str]]:
    """Return the lines of a CSV file in the folder `published` beside `module`, a path."""
    return table(module, f"published/{name}")


def table(module: str, name: str = "claims.csv") -> list[dict[str, str]]:
    """Return the lines of a CSV file beside `module`, a path."""
    with (Path(module).resolve().parent / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
