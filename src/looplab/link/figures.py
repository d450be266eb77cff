"""Figures of many delays in bounded memory."""

import math
from collections.abc import Iterable
from typing import Any

from looplab.system.histogram import Histogram

QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


class Delays(Histogram):
    """A histogram of delays in ns that also knows their spread."""

    def __init__(self, values_ns: Iterable[int] = ()) -> None:
        super().__init__()
        self._squares_ms2 = 0.0
        for value in values_ns:
            self.add(value)

    def add(self, value_ns: int, times: int = 1) -> None:
        super().add(value_ns, times)
        self._squares_ms2 += times * (max(value_ns, 0) / 1e6) ** 2

    def as_json(self) -> dict[str, Any]:
        """Return n, mean, sd, min, p50, p95, p99, max in ms; quantiles to a thousandth of them."""
        if not self.count:
            return {"n": 0, **dict.fromkeys(("mean", "sd", "min", *QUANTILES, "max"))}
        n, mean = self.count, self.sum_ns / self.count / 1e6
        variance = (self._squares_ms2 - n * mean * mean) / (n - 1) if n > 1 else 0.0
        quantiles_ms = (ns / 1e6 for ns in self.quantiles_ns(QUANTILES.values()))
        figures = {
            "mean": mean,
            "sd": math.sqrt(max(variance, 0.0)),
            "min": self.min_ns / 1e6,
            **dict(zip(QUANTILES, quantiles_ms, strict=True)),
            "max": self.max_ns / 1e6,
        }
        return {"n": n, **{name: round(value, 4) for name, value in figures.items()}}
