"""Rows of the report's CSV files: cells as their spec says, intervals, numbers."""

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path

from looplab.report.cell import QUANTILES, MeasuredCell
from looplab.report.samples import Measured
from looplab.report.statistics import UNKNOWN, Interval


def cell_row(measured: Measured, cell: MeasuredCell) -> dict[str, object]:
    """Return all that the spec says of a cell: key, counts, latencies with the interval of their mean, figures."""
    latencies: dict[str, str] = {}
    for name in cell.latency_us:
        latencies |= spread(f"{name}_mean_us", cell.mean(name), ".4f")
        latencies |= {
            f"{name}_{quantile}_us": number((cell.quantile(name, quantile) or UNKNOWN).estimate, ".4f")
            for quantile in QUANTILES
        }
    return {
        "run_id": " ".join(measured.run_ids),
        "scenario": measured.run.scenario,
        "fidelity": measured.run.fidelity,
        "valid": "yes" if cell.valid else "no",
        **{key.name: key.text(value) for key, value in zip(cell.key_columns(), cell.key, strict=True)},
        **{count.name: count.of(cell) for count in cell.counts()},
        **latencies,
        **{figure.name: number(figure.of(cell), ".4f") for figure in cell.figures()},
        **{word.name: word.of(cell) for word in cell.words()},
    }


def write_csv(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    """Write rows that all have the same columns."""
    with path.open("w", encoding="utf-8", newline="") as file:
        for number, row in enumerate(rows):
            writer = csv.DictWriter(file, row.keys(), lineterminator="\n")
            if not number:
                writer.writeheader()
            writer.writerow(row)


def spread(name: str, interval: Interval | None, form: str = ".3f") -> dict[str, str]:
    """Return an interval as three columns of a CSV file, e.g. mean_us, mean_low_us and mean_high_us; "" if unknown."""
    stem, _, unit = name.rpartition("_") if name.endswith(("_us", "_ms")) else (name, "", "")
    names = [f"{stem}{end}{'_' if unit else ''}{unit}" for end in ("", "_low", "_high")]
    bounds = (interval.estimate, interval.low, interval.high) if interval else (None, None, None)
    return {key: number(bound, form) for key, bound in zip(names, bounds, strict=True)}


def number(value: float | None, form: str = ".3f") -> str:
    """Return a figure for a CSV file, "" for None and NaN."""
    return "" if value is None or value != value else f"{value:{form}}"
