"""Read a CSV file of a run as columns."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from looplab.spec.cell import Cell

KEY, NUMBER, WORD = "float32", "float64", "category"


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
    try:
        return pd.read_csv(path, usecols=list(columns), dtype=dict(columns), keep_default_na=False, na_values=[""])
    except (ValueError, OSError) as error:
        raise Unreadable(str(error).strip().splitlines()[0][:200]) from error
