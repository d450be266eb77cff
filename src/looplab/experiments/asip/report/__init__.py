"""The report on asip: one microcontroller over serial, TCP and MQTT, beside what was published."""

from functools import cache
from statistics import geometric_mean

import pandas as pd

from looplab.experiments.asip import THROUGHPUT, AsipCell, LatencyCell, ThroughputCell
from looplab.report.cell import MeasuredCell
from looplab.report.csv_rows import printed
from looplab.report.samples import MeasuredRuns

THROUGHPUT_HZ, LATENCY_MS = "throughput_hz", "latency_ms"
# The floor that the source quotes, of 32 characters, and the bound that it gives for nearly all latencies.
FLOOR_MS, BOUND_MS = 6.7, 15.0


class MeasuredAsip(MeasuredCell, AsipCell):
    """One client over one transport."""


class MeasuredLatency(MeasuredAsip, LatencyCell):
    """One client whose tests were timed."""


class MeasuredThroughput(MeasuredAsip, ThroughputCell):
    """One client whose highest frequency was searched."""


CELLS = {"": MeasuredLatency, THROUGHPUT: MeasuredThroughput}


def usable(run: MeasuredRuns) -> list[MeasuredAsip]:
    """Return the valid cells."""
    return [cell for cell in run.cells.values() if isinstance(cell, MeasuredAsip) and cell.valid]


def measure_of(run: MeasuredRuns) -> str:
    """Return what a run measures, as the source's table names it."""
    return THROUGHPUT_HZ if run.run.scenario == THROUGHPUT else LATENCY_MS


@cache
def published() -> pd.DataFrame:
    """Return every printed figure in the order of the source.

    `placement` is that of this lab which comes nearest to the `configuration`. With a Raspberry Pi 2 and TCP or MQTT,
    the bridge or the broker ran on a second one.
    """
    return pd.DataFrame(printed(__file__, "asip.csv")).astype({"value": float})


def published_value(measure: str, language: str, transport: str, placement: str) -> float | None:
    """Return the figure of the first MacBook with that placement, None if there is none."""
    keys = {"measure": measure, "language": language, "transport": transport, "placement": placement}
    alike = published()[(published()[[*keys]] == pd.Series(keys)).all(axis="columns")]
    alike = alike[alike["configuration"].str.contains("MacBook")]
    return float(alike["value"].iloc[0]) if len(alike) else None


def published_ratio(measure: str, axis: str, before: str, after: str) -> float:
    """Return the geometric mean of `after` over `before`, words of the column `axis`, where both were published."""
    others = ["configuration", "transport" if axis == "language" else "language"]
    table = published().query("measure == @measure").pivot(index=others, columns=axis, values="value")
    return geometric_mean((table[after] / table[before]).dropna())
