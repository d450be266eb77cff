"""The figures that the source published, by language, configuration and transport."""

from functools import cache
from statistics import geometric_mean

import pandas as pd

from looplab.report.printed import printed

THROUGHPUT_HZ, LATENCY_MS = "throughput_hz", "latency_ms"
# The floor that the source quotes, of 32 characters.
FLOOR_MS = 6.7
# The bound that the source gives for nearly all latencies.
BOUND_MS = 15.0
LANGUAGES = ("java", "python")
TRANSPORTS = ("serial", "tcp", "mqtt")


@cache
def figures() -> pd.DataFrame:
    """Return every printed figure in the order of the source.

    `placement` is that of this lab which comes nearest to the `configuration`. With a Raspberry Pi 2 and TCP or MQTT,
    the bridge or the broker ran on a second one.
    """
    return pd.DataFrame(printed(__file__, "asip.csv")).astype({"value": float})


def value(measure: str, language: str, transport: str, placement: str) -> float | None:
    """Return the figure of the first MacBook with that placement, None if there is none."""
    keys = {"measure": measure, "language": language, "transport": transport, "placement": placement}
    alike = figures()[(figures()[[*keys]] == pd.Series(keys)).all(axis="columns")]
    alike = alike[alike["configuration"].str.contains("MacBook")]
    return float(alike["value"].iloc[0]) if len(alike) else None


def ratio(measure: str, axis: str, before: str, after: str) -> float:
    """Return the geometric mean of `after` over `before`, words of the column `axis`, where both were published."""
    others = ["configuration", "transport" if axis == "language" else "language"]
    table = figures().query("measure == @measure").pivot(index=others, columns=axis, values="value")
    return geometric_mean((table[after] / table[before]).dropna())
