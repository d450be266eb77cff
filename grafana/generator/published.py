"""The published figures as Prometheus recording rules, so that panels can draw them beside what is measured."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from looplab.metrics.distributions import LATENCY_BOUNDS_S, ROBOT_BOUNDS_S

FOLDER = Path(__file__).parent.parent / "published"

_HEAD = """# Written by grafana/generate.py from grafana/published/: change the figures there.
groups:
  - name: published
    # Constants; looked up seldom, well within the five minutes Prometheus remembers a value.
    interval: 15s
    rules:
"""


def nearest_bound_s(latency_s: float, metric: str) -> float:
    """The histogram bound a published point is drawn at."""
    bounds = ROBOT_BOUNDS_S if metric == "R" else LATENCY_BOUNDS_S
    return min(bounds, key=lambda bound: abs(math.log(bound / latency_s)))


def rules() -> Iterator[tuple[str, float, dict[str, str]]]:
    """(record, value, labels) of each published figure."""
    with (FOLDER / "thesis_cdf_points.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            bound_s = nearest_bound_s(float(row["latency_us"]) / 1e6, row["metric"])
            labels = {
                "figure": row["figure"],
                "scenario": row["scenario"],
                "metric": row["metric"],
                "le": repr(bound_s),
                "wording": row["wording"],
            }
            yield "published_latency_cdf_ratio", float(row["share"]), labels
    with (FOLDER / "thesis_tables.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            for column in row:
                metric, _, rest = column.partition("_")
                if metric in ("T", "R", "O") and row[column]:
                    labels = {
                        "scenario": f"scenario{row['scenario']}",
                        "interval_ms": row["interval_ms"],
                        "qos": row["qos"],
                        "metric": metric,
                        "statistic": rest.removesuffix("_us"),
                    }
                    yield "published_latency_seconds", float(row[column]) / 1e6, labels


def rules_text() -> str:
    """The whole rules file. A metric figure label of the CDF points is part of what selects them."""
    return _HEAD + "".join(_rule(*rule) for rule in rules())


def _rule(record: str, value: float, labels: dict[str, Any]) -> str:
    quoted = ", ".join(f"{name}: {json.dumps(text)}" for name, text in labels.items())
    return f"      - record: {record}\n        expr: vector({value:.10g})\n        labels: {{{quoted}}}\n"
