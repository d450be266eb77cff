"""Read a CSV file of a run as columns."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from looplab.spec.cell import Cell

KEY, NUMBER, WORD = "float32", "float64", "category"
# Read in one piece, a file takes four times the memory of its columns.
_LINES_AT_ONCE = 200_000


def key_types(cell: type[Cell]) -> dict[str, str]:
    """Return the types of the columns that say which cell a line is of."""
    return {key.name: WORD if key.kind is str else KEY for key in cell.key_columns()}


def lines_of(lines: pd.DataFrame, cell: Cell) -> pd.DataFrame:
    """Return the lines of one cell."""
    return lines[np.logical_and.reduce([lines[name] == value for name, value in cell.key_document.items()])]


class Unreadable(Exception):
    """A file that is not the CSV file it should be; the text says why, in one line."""


def read_csv(path: Path, columns: Mapping[str, str]) -> pd.DataFrame:
    """Return the named columns of these types; an empty field is missing. Raises Unreadable.

    A NUMBER is exact below 2**53: nanoseconds of a clock that has run for 104 days.
    """
    form = {"usecols": list(columns), "dtype": dict(columns), "keep_default_na": False, "na_values": [""]}
    try:
        if not path.is_file():
            raise ValueError(f"{path.name} is missing, or no file")
        with path.open("rb") as file:
            first = file.readline().decode("ascii", "replace").strip()
        if not set(columns) <= set(first.split(",")):
            raise ValueError(f"its first line is not that of a {path.name}: {first[:60]!r:.62}")
        with pd.read_csv(path, chunksize=_LINES_AT_ONCE, **form) as pieces:
            read = list(pieces)
    except (ValueError, OSError) as error:
        raise Unreadable(str(error).strip().splitlines()[0]) from error
    joined = {}
    for name, kind in columns.items():
        parts = [piece.pop(name) for piece in read]
        joined[name] = pd.api.types.union_categoricals(parts) if kind == WORD else np.concatenate(parts)
    return pd.DataFrame(joined, copy=False)
