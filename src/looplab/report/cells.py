"""Cells of stored runs as rows of a CSV file, as their spec says."""

from looplab.report.cell import QUANTILES, MeasuredCell
from looplab.report.samples import Measured
from looplab.report.shell import number, spread
from looplab.report.statistics import UNKNOWN
from looplab.spec.columns import Word


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
        **{word.name: word.of(cell) for word in cell.of_kind(Word)},
    }
