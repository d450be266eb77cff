"""The figures that the source published, by language, configuration and transport."""

import math
from dataclasses import dataclass
from functools import cache

from looplab.report.printed import printed

THROUGHPUT_HZ, LATENCY_MS = "throughput_hz", "latency_ms"
# The floor that the source quotes, and of how many characters.
FLOOR_MS, FLOOR_CHARACTERS = 6.7, 32
# The bound that the source gives for nearly all latencies.
BOUND_MS = 15.0
LANGUAGES = ("java", "python")
TRANSPORTS = ("serial", "tcp", "mqtt")
PLACEMENTS = ("one", "bridge", "broker")


@dataclass(frozen=True)
class Figure:
    """One printed figure; `placement` is that of this lab which comes nearest to the configuration."""

    figure: str
    measure: str
    language: str
    configuration: str
    placement: str
    transport: str
    value: float


@cache
def figures() -> tuple[Figure, ...]:
    """Return every printed figure in the order of the source."""
    lines = printed(__file__, "asip.csv")
    return tuple(Figure(**{**line, "value": float(line["value"])}) for line in lines)  # type: ignore[arg-type]


def value(measure: str, language: str, transport: str, placement: str) -> float | None:
    """Return the figure of the first configuration with that placement (the MacBook Pro's), None if there is none."""
    wanted = (measure, language, transport, placement)
    return next((f.value for f in figures() if (f.measure, f.language, f.transport, f.placement) == wanted), None)


def ratio(measure: str, axis: str, before: str, after: str) -> float:
    """Return the geometric mean of `after` over `before`, words of the field `axis`, where both were published."""
    logs = [
        math.log(two.value / one.value)
        for one in figures()
        for two in figures()
        if one.measure == two.measure == measure
        and (getattr(one, axis), getattr(two, axis)) == (before, after)
        and all(getattr(one, name) == getattr(two, name) for name in _OTHERS[axis])
    ]
    return math.exp(sum(logs) / len(logs))


_OTHERS = {"language": ("configuration", "transport"), "transport": ("configuration", "language")}
