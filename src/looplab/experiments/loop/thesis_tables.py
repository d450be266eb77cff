"""Tables 5.2 to 5.9 of the thesis: the report compares with them, and a run's summary shows their means."""

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

# The only file of that folder in the controller's image (.dockerignore).
TABLES = Path(__file__).with_name("report") / "published/thesis_tables.csv"
# Its O under 100 ms is that of 10 ms. There O is T - R, as in every other row within 0.3 %; here T - R is 276 us less
# than the printed O.
MISPRINTED = ("5.2", 100.0)


@dataclass(frozen=True)
class PublishedRow:
    """One cell of tables 5.2 to 5.9; latencies by name, e.g. `O_avg`, empty where the thesis prints none."""

    table: str
    scenario: str
    qos: int
    interval_ms: float
    outcome: str
    latency_us: dict[str, float]

    @property
    def words(self) -> str:
        """What the thesis prints in place of figures: loss, connection lost."""
        return "" if self.outcome == "answered" else self.outcome

    def figure(self, metric: str, statistic: str) -> float | None:
        return self.latency_us.get(f"{metric}_{statistic}")

    @property
    def overhead_us(self) -> float | None:
        """The mean O by which runs are judged: as printed, of a misprinted row what its T and R leave."""
        if (self.table, self.interval_ms) == MISPRINTED:
            return self.latency_us["T_avg"] - self.latency_us["R_avg"]
        return self.figure("O", "avg")


NOT_PRINTED = PublishedRow("", "", 0, 0.0, "", {})


@cache
def rows() -> list[PublishedRow]:
    """Return the rows of all tables in the order printed."""
    with TABLES.open(newline="", encoding="utf-8") as file:
        return [
            PublishedRow(
                line["table"],
                f"scenario{line['scenario']}",
                int(line["qos"]),
                float(line["interval_ms"]),
                line["outcome"],
                {key.removesuffix("_us"): float(us) for key, us in line.items() if key.endswith("_us") and us},
            )
            for line in csv.DictReader(file)
        ]


def row(scenario: str, interval_ms: float, qos: int) -> PublishedRow:
    """Return one cell, NOT_PRINTED if the thesis does not have it."""
    key = (scenario, interval_ms, qos)
    return next((one for one in rows() if (one.scenario, one.interval_ms, one.qos) == key), NOT_PRINTED)
