"""Stored runs of qos-delay: which there are, and each cell's latency with how sure one can be of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from looplab.experiments.qos_delay import NAME as EXPERIMENT
from looplab.experiments.qos_delay.document import SAMPLES_HEADER
from looplab.report.statistics import Interval, cell_intervals
from looplab.report.stored import NEEDED, UNREAD, StoredRun, Unusable, read_document
from looplab.run.folder import SCHEMA

# Runs of before have two more columns, of a robot that they did not have.
HEADERS = (
    SAMPLES_HEADER,
    "interval_ms,qos,repetition,sequence,due_ns,sent_ns,received_ns,total_us,robot_us,overhead_us,outcome,"
    "delay_pb_ms,delay_bs_ms",
)
# A cell is one long repetition. Blocks of this length stand for repetitions: much longer than what the connection
# remembers (a round trip), so that they are nearly independent.
BLOCK_S = 1.0
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_COUNTS = ("sent", "answered", "late", "lost")

# Mean delay from publisher to broker and from broker to subscriber in ms, and the quality of service.
Key = tuple[float, ...]


@dataclass(frozen=True)
class DelayCell:
    """One cell: the delay of each link as wanted and as made, the latency, what the segments carried.

    `ratio` is the mean latency over the mean end-to-end delay that was really made; NaN where none was.
    """

    key: Key
    document: Mapping[str, Any]
    made_ms: float
    mean_us: Interval
    ratio: Interval
    quantiles_us: Mapping[str, Interval]

    @property
    def delay_pb_ms(self) -> float:
        return self.key[0]

    @property
    def delay_bs_ms(self) -> float:
        return self.key[1]

    @property
    def qos(self) -> int:
        return int(self.key[2])

    @property
    def end_to_end_ms(self) -> float:
        """As wanted: what cells are put in order by."""
        return self.delay_pb_ms + self.delay_bs_ms

    @property
    def symmetrical(self) -> bool:
        return self.delay_pb_ms == self.delay_bs_ms

    @property
    def interval_ms(self) -> float:
        return float(self.document["interval_ms"])

    @property
    def valid(self) -> bool:
        return bool(self.document.get("valid", True))

    @property
    def packets_per_segment(self) -> float | None:
        """Mean number of MQTT packets in a TCP segment of the publisher."""
        return _number(self._publisher().get("mqtt_packets_per_segment"), "mean")

    @property
    def largest_segment_bytes(self) -> float | None:
        return _number(self._publisher().get("size_bytes"), "max")

    @property
    def packets_per_message(self) -> Mapping[str, float]:
        """MQTT control packets of each type that one message cost."""
        found = self.document.get("packets_per_message")
        return found if isinstance(found, dict) else {}

    def _publisher(self) -> Mapping[str, Any]:
        segments = self.document.get("segments")
        publisher = segments.get("publisher") if isinstance(segments, dict) else None
        return publisher if isinstance(publisher, dict) else {}


@dataclass(frozen=True)
class DelayRun:
    """A stored run and its cells."""

    run: StoredRun
    cells: Mapping[Key, DelayCell]

    def symmetrical(self, qos: int) -> list[DelayCell]:
        """Valid cells with a measured latency, both links alike, by growing delay."""
        found = [c for c in self.cells.values() if c.symmetrical and c.qos == qos and c.valid and c.made_ms > 0]
        return sorted(found, key=lambda cell: cell.end_to_end_ms)


@dataclass
class DelaySelection:
    """The newest sound run of each fidelity; what was left out, and why."""

    runs: dict[str, DelayRun] = field(default_factory=dict)
    unusable: list[Unusable] = field(default_factory=list)
    older: list[StoredRun] = field(default_factory=list)


def is_delay_run(document: Any) -> bool:
    """Whether what a run.json holds says that it is a run of this experiment."""
    return isinstance(document, dict) and document.get("experiment") == EXPERIMENT


def select(folders: Sequence[Path], known: Mapping[Path, Any] = UNREAD) -> DelaySelection:
    """Of `folders` (each a run of this experiment) the newest of each fidelity that can be read.

    `known` is what `documents` has read already.
    """
    selection = DelaySelection()
    for folder in sorted(folders, key=lambda path: path.name, reverse=True):
        found = read(folder, known.get(folder))
        if isinstance(found, Unusable):
            selection.unusable.append(found)
        elif found.run.fidelity in selection.runs:
            selection.older.append(found.run)
        else:
            selection.runs[found.run.fidelity] = found
    return selection


def checked(folder: Path, document: Any) -> StoredRun | Unusable:
    """The run of this experiment that `document`, its run.json, tells, or what is wrong with it."""
    trouble = _trouble(document)
    return Unusable(folder.name, *trouble) if trouble else StoredRun(folder, document)


def read(folder: Path, document: Any = None) -> DelayRun | Unusable:
    """The run in `folder` with its cells, or what is wrong with it; `document` is its run.json where that is known."""
    document = document or read_document(folder)
    run = document if isinstance(document, Unusable) else checked(folder, document)
    if isinstance(run, Unusable):
        return run
    try:
        frame = _samples(folder / "samples.csv")
    except (OSError, pl.exceptions.PolarsError) as error:
        lines = str(error).splitlines()
        return Unusable(folder.name, "damaged", f"samples.csv cannot be read ({lines[0] if lines else 'empty'}).")
    cells: dict[Key, DelayCell] = {}
    for cell in run.document["cells"]:
        key = (float(cell["delay_pb_ms"]), float(cell["delay_bs_ms"]), int(cell["qos"]))
        held = frame.filter(
            (pl.col("delay_pb_ms") == key[0]) & (pl.col("delay_bs_ms") == key[1]) & (pl.col("qos") == key[2])
        )
        if held.height != cell["sent"]:
            return Unusable(
                folder.name, "damaged", f"samples.csv holds {held.height} messages of a cell with {cell['sent']} sent."
            )
        cells[key] = _cell(key, cell, held)
    return DelayRun(run, cells)


def _cell(key: Key, document: Mapping[str, Any], held: pl.DataFrame) -> DelayCell:
    measured = held.filter(pl.col("outcome").is_in(["answered", "late"]))
    values = measured["total_us"].to_numpy().astype(np.float64)
    made_ms = _number(document.get("end_to_end_ms"), "total") or 0.0
    if not values.size:
        nothing = Interval(math.nan, math.nan, math.nan)
        return DelayCell(key, document, made_ms, nothing, nothing, dict.fromkeys(QUANTILES, nothing))
    due_s = (measured["due_ns"] - held["due_ns"].min()).to_numpy() / 1e9
    blocks = np.floor(due_s / BLOCK_S).astype(np.int64)
    mean, quantiles = cell_intervals(values, blocks, list(QUANTILES.values()))
    return DelayCell(key, document, made_ms, mean, _over(mean, made_ms), dict(zip(QUANTILES, quantiles, strict=True)))


def _over(mean: Interval, made_ms: float) -> Interval:
    """The mean of thousands of packets' delays is taken as exact."""
    if made_ms <= 0:
        return Interval(math.nan, math.nan, math.nan)
    return Interval(*(value / (1000 * made_ms) for value in (mean.estimate, mean.low, mean.high)))


def _samples(path: Path) -> pl.DataFrame:
    with path.open("rb") as file:
        header = file.readline().decode("ascii", "replace").strip()
    if header not in HEADERS:
        raise OSError(f"its first line is not that of a run of {EXPERIMENT}: {header[:60]!r}")
    columns = {
        "qos": pl.Int8,
        "due_ns": pl.Int64,
        "total_us": pl.Float64,
        "outcome": pl.String,
        "delay_pb_ms": pl.Float64,
        "delay_bs_ms": pl.Float64,
    }
    return pl.scan_csv(path, schema_overrides=columns).select(*columns).collect(engine="streaming")


def _trouble(document: Any) -> tuple[str, str] | None:
    if not isinstance(document, dict) or document.get("experiment") != EXPERIMENT:
        return "foreign", f"run.json is no document of the experiment {EXPERIMENT}."
    if document.get("schema") != SCHEMA:
        return "newer", f"Its schema is {document.get('schema')!r}; this lab reads {SCHEMA}."
    for key, kind in NEEDED.items():
        if type(document.get(key)) is not kind:
            return "damaged", f"{key} in run.json is not what this lab writes: run it again."
    keys = []
    for cell in document["cells"]:
        if not isinstance(cell, dict) or not all(_is_number(cell.get(k)) for k in ("delay_pb_ms", "delay_bs_ms")):
            return "damaged", "A cell in run.json has no delays: run it again."
        if cell.get("qos") not in (0, 1, 2) or not _is_number(cell.get("interval_ms")):
            return "damaged", "A cell in run.json has no QoS or interval: run it again."
        if not all(isinstance(cell.get(k), int) for k in _COUNTS):
            return "damaged", "A cell in run.json lacks its counts: run it again."
        if cell["sent"] != cell["answered"] + cell["late"] + cell["lost"] + cell.get("robot_errors", 0):
            return "damaged", f"The counts of a cell do not add up: {cell['sent']} sent."
        keys.append((cell["delay_pb_ms"], cell["delay_bs_ms"], cell["qos"]))
    if not keys:
        return "damaged", "run.json has no cells: run it again."
    return ("damaged", "A cell stands twice in run.json.") if len(set(keys)) < len(keys) else None


def _number(mapping: Any, name: str) -> float | None:
    value: Any = mapping.get(name) if isinstance(mapping, dict) else None
    return float(value) if _is_number(value) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
