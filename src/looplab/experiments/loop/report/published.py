"""What the thesis published, from the data in looplab/published."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "published"
SLIPS = {
    ("5.2", 100.0, "O"): "as printed: the same O row stands under 100 ms and 10 ms, with O(max) above T(max)",
    ("5.2", 10.0, "O"): "as printed: the same O row stands under 100 ms and 10 ms",
}


@dataclass(frozen=True)
class PublishedRow:
    """One cell of tables 5.2 to 5.9; latencies by name, e.g. `O_avg`, empty where the thesis prints none."""

    table: str
    scenario: str
    qos: int
    interval_ms: float
    outcome: str
    latency_us: dict[str, float]

    def figure(self, metric: str, statistic: str) -> float | None:
        return self.latency_us.get(f"{metric}_{statistic}")

    def slip(self, metric: str) -> str:
        """What is odd about the printed figures, "" where nothing is."""
        return SLIPS.get((self.table, self.interval_ms, metric), "")


@dataclass(frozen=True)
class Point:
    """The text of figure `figure` says: `share` of the messages of `scenario` lay below `below_us`."""

    figure: str
    scenario: str
    metric: str
    share: float
    below_us: float


@dataclass(frozen=True)
class Figure:
    """A CDF figure of the thesis: what it compares and what is said about it."""

    number: str
    compares: str
    scenarios: tuple[str, ...]


@cache
def tables() -> dict[str, list[PublishedRow]]:
    """The rows of each table, by its number, in the order printed."""
    found: dict[str, list[PublishedRow]] = {}
    for line in _lines("thesis_tables.csv"):
        latency = {
            key.removesuffix("_us"): float(value) for key, value in line.items() if key.endswith("_us") and value
        }
        row = PublishedRow(
            line["table"],
            f"scenario{line['scenario']}",
            int(line["qos"]),
            float(line["interval_ms"]),
            line["outcome"],
            latency,
        )
        found.setdefault(row.table, []).append(row)
    return found


@cache
def titles() -> dict[str, str]:
    """What each of the nine scenarios is, in a few words."""
    return {f"scenario{line['scenario']}": line["title"] for line in _lines("thesis_scenarios.csv")}


@cache
def points() -> list[Point]:
    return [
        Point(
            line["figure"], f"scenario{line['scenario']}", line["metric"], float(line["share"]), float(line["below_us"])
        )
        for line in _lines("thesis_figure_points.csv")
    ]


@cache
def figures() -> list[Figure]:
    """The figures, each with every scenario that its text gives a point for."""
    texts: dict[str, list[str]] = {}
    for line in _lines("thesis_figures.csv"):
        texts.setdefault(line["figure"], []).append(f"{line['metric']}: {line['claim']}")
    return [
        Figure(number, "; ".join(claims), tuple(sorted({p.scenario for p in points() if p.figure == number})))
        for number, claims in texts.items()
    ]


def row_of(scenario: str, interval_ms: float, qos: int) -> PublishedRow | None:
    """The published cell of that scenario, None where there is none."""
    for rows in tables().values():
        for row in rows:
            if (row.scenario, row.interval_ms, row.qos) == (scenario, interval_ms, qos):
                return row
    return None


def mean_us(scenario: str, intervals_ms: tuple[float, ...], qos: int, metric: str = "O") -> float | None:
    """The published averages of some intervals, averaged; None where one of them is missing."""
    rows = [row_of(scenario, interval, qos) for interval in intervals_ms]
    values = [row.figure(metric, "avg") for row in rows if row is not None]
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(intervals_ms) else None


def _lines(name: str) -> list[dict[str, str]]:
    with (FOLDER / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
