"""What a run of balance stores: the figures of a cell's control, and its CSV files."""

from statistics import fmean
from typing import Any

from looplab.experiments.balance import EXPERIMENT
from looplab.experiments.balance.figures import Control, age, control, misses
from looplab.experiments.loop import document
from looplab.run.accounting import Columns
from looplab.run.document import samples_file
from looplab.run.record import File
from looplab.run.samples import ABSENT, ANSWERED, LATE
from looplab.spec.parameters import RunParameters


def files(parameters: RunParameters) -> list[File]:
    """Return the CSV files of a run: samples.csv has fields of its own."""
    return [samples_file(EXPERIMENT.cell, parameters, SAMPLES), *document.files(parameters)[1:]]


def control_figures(columns: Columns, repetitions: list[range], interval_ns: int) -> dict[str, float | None]:
    """Return what run.json holds of a cell's control, by the rows of each repetition; None where nothing was read."""
    controls, missed, ages_ms = [], [], []
    for rows in repetitions:
        read = [row for row in rows if columns["tilt_urad"][row] != ABSENT]
        if read:
            moments_s = [columns["sent_ns"][row] / 1e9 for row in read]
            tilts_rad = [columns["tilt_urad"][row] / 1e6 for row in read]
            controls.append(control(moments_s, tilts_rad, [columns["level"][row] for row in read]))
            ages_ms.append(1000 * age(_stamp_s(columns, row) for row in read))
        missed.append(misses([_in_time(columns, row, interval_ns) for row in rows]))
    unknown: list[float | None] = [None] * len(Control._fields)
    means = [round(fmean(values), 6) for values in zip(*controls, strict=True)] or unknown
    age_ms = round(fmean(ages_ms), 3) if ages_ms else None
    return {**dict(zip(Control._fields, means, strict=True)), "age_ms": age_ms, "misses": float(max(missed))}


def _stamp_s(columns: Columns, row: int) -> tuple[float, float]:
    """Return when a reading was taken, its request's way to the bridge being half of O, and when it came."""
    sent_ns, received_ns, robot_ns = (int(columns[name][row]) for name in ("sent_ns", "received_ns", "robot_ns"))
    return (sent_ns + (received_ns - sent_ns - robot_ns) / 2) / 1e9, received_ns / 1e9


def _in_time(columns: Columns, row: int, interval_ns: int) -> bool:
    good = columns["state"][row] in (ANSWERED, LATE)
    return good and columns["received_ns"][row] - columns["due_ns"][row] <= interval_ns


def _tilt(columns: Any, row: int) -> str:
    tilt_urad = columns["tilt_urad"][row]
    return "" if tilt_urad == ABSENT else str(round(tilt_urad / 1000))


def _column(name: str) -> Any:
    return lambda columns, row: "" if columns[name][row] == ABSENT else str(columns[name][row])


# samples.csv has these fields beside the latencies of a row.
SAMPLES = {"tilt_mrad": _tilt, "level": _column("level"), "used": _column("used")}
