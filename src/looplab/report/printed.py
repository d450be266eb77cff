"""The figures that a publication prints, as files beside the report that compares them."""

import csv
from pathlib import Path


def printed(module: str, name: str) -> list[dict[str, str]]:
    """Return the lines of a CSV file in the folder `published` beside `module`, a path."""
    with (Path(module).resolve().parent / "published" / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
