"""Rows of CSV files: of the report, cells as their spec says, intervals, numbers; of what a publication prints."""

import csv
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from looplab.report.cell import QUANTILES, MeasuredCell
from looplab.report.samples import MeasuredRuns
from looplab.report.statistics import Interval

# Where a formula would begin, whatever separates the cells.
_FORMULA = re.compile(r"(?:^|(?<=[;,|\t\r\n]))(?=[\s\"]*[=+@-])")


def cell_row(measured: MeasuredRuns, cell: MeasuredCell) -> dict[str, object]:
    """Return all that the spec says of a cell: key, counts, latencies with the interval of their mean, figures.

    Latencies that are not in the samples are those of run.json.
    """
    latencies: dict[str, str] = {}
    for name in (one.name for one in cell.latencies() if one.metric):
        latencies |= spread(f"{name}_mean_us", cell.interval(f"{name}.avg"), ".4f")
        quantiles = {one: cell.interval(f"{name}.{one}").estimate for one in QUANTILES}
        latencies |= {f"{name}_{one}_us": number(value, ".4f") for one, value in quantiles.items()}
    figures: dict[str, str] = {}
    for one in cell.figures():
        figures |= {**spread(one.name, cell.interval(one.name), ".4f"), one.name: number(one.of(cell), ".4f")}
    return {
        "run_id": " ".join(measured.run_ids),
        "scenario": measured.run.scenario,
        "fidelity": measured.run.fidelity,
        "factors": " ".join(measured.run.factors),
        "valid": "yes" if cell.valid else "no",
        **cell.key_texts,
        **{count.name: count.of(cell) for count in cell.counts()},
        **latencies,
        **figures,
        **{word.name: word.of(cell) for word in cell.words()},
    }


def read_rows(path: Path) -> list[dict[str, str]]:
    """Return the lines of a CSV file."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def printed(module: str, name: str) -> list[dict[str, str]]:
    """Return the lines of a CSV file in the folder `published` beside `module`, a path."""
    return read_rows(Path(module).resolve().parent / "published" / name)


def write_csv(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    """Write rows; a column that a row lacks is empty in it."""
    lines = list(rows)
    names = dict.fromkeys(name for row in lines for name in row)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, names, restval="", lineterminator="\n")
        if lines:
            writer.writeheader()
        writer.writerows({name: _cell(value) for name, value in row.items()} for row in lines)


def _cell(value: object) -> object:
    """Return a cell that no spreadsheet takes for a formula: what begins like one gets an apostrophe in front.

    A spreadsheet whose list separator is `;` or a tab begins a cell behind each. A number keeps its sign.
    """
    if not isinstance(value, str):
        return value
    try:
        float(value)
    except ValueError:
        return _FORMULA.sub("'", value)
    return value


def spread(name: str, interval: Interval | None, form: str = ".3f") -> dict[str, str]:
    """Return an interval as three columns of a CSV file, e.g. mean_us, mean_low_us and mean_high_us; "" if unknown."""
    stem, _, unit = name.rpartition("_") if name.endswith(("_us", "_ms")) else (name, "", "")
    names = [f"{stem}{end}{'_' if unit else ''}{unit}" for end in ("", "_low", "_high")]
    bounds = (interval.estimate, interval.low, interval.high) if interval else (None, None, None)
    return {key: number(bound, form) for key, bound in zip(names, bounds, strict=True)}


def number(value: float | None, form: str = ".3f") -> str:
    """Return a figure for a CSV file, "" for None and NaN."""
    return "" if value is None or value != value else f"{value:{form}}"
