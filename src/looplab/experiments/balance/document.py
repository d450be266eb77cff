"""What a run of balance stores: the figures of a cell's control, and its CSV files."""

from collections.abc import Sequence
from math import sqrt
from statistics import fmean
from typing import Any, NamedTuple

from looplab.experiments.balance import EXPERIMENT
from looplab.experiments.balance.plant import FALLEN_RAD, volts_of
from looplab.experiments.loop import document
from looplab.run.accounting import Columns
from looplab.run.document import samples_file
from looplab.run.record import File
from looplab.run.samples import ABSENT, ANSWERED, LATE
from looplab.spec.parameters import RunParameters

# The tilt and the voltage that cost 1, as `lqr` is designed.
COST_RAD, COST_V = 0.1, 4.0
WINDOW = 10
# Readings are whole milliradians.
_FALLEN_RAD = int(1000 * FALLEN_RAD) / 1000


def files(parameters: RunParameters) -> list[File]:
    """Return the CSV files of a run: samples.csv has fields of its own."""
    return [samples_file(EXPERIMENT.cell, parameters, SAMPLES), *document.files(parameters)[1:]]


class Control(NamedTuple):
    """How long it was watched and stood, RMS of its tilt while it stood, mean cost and age of its readings."""

    seconds: float
    upright_s: float
    angle_rms_rad: float
    cost: float
    age_ms: float


def control_figures(columns: Columns, repetitions: list[range], interval_ns: int) -> dict[str, float | None]:
    """Return what run.json holds of a cell's control, by the rows of each repetition; None where nothing was read."""
    read = ([row for row in rows if columns["tilt_urad"][row] != ABSENT] for rows in repetitions)
    controls = [control(columns, rows) for rows in read if rows]
    unknown: list[float | None] = [None] * len(Control._fields)
    means = [round(fmean(values), 6) for values in zip(*controls, strict=True)] or unknown
    missed = max(misses(columns, rows, interval_ns) for rows in repetitions)
    return {**dict(zip(Control._fields, means, strict=True)), "misses": float(missed)}


def control(columns: Columns, rows: Sequence[int]) -> Control:
    """Return the figures of one repetition by the rows with a reading.

    A reading costs (tilt / 0.1 rad)^2 + (u / 4 V)^2. A fallen robot costs on as it lies: 45 degrees, no voltage.
    """
    sent_s = [columns["sent_ns"][row] / 1e9 for row in rows]
    tilts_rad = [columns["tilt_urad"][row] / 1e6 for row in rows]
    stands = next((at for at, tilt in enumerate(tilts_rad) if abs(tilt) >= _FALLEN_RAD), len(rows))
    costs = [
        (tilt / COST_RAD) ** 2 + (volts_of(columns["level"][row]) / COST_V) ** 2
        for tilt, row in zip(tilts_rad[:stands], rows[:stands], strict=True)
    ]
    costs += [(FALLEN_RAD / COST_RAD) ** 2] * (len(rows) - stands)
    return Control(
        sent_s[-1] - sent_s[0],
        sent_s[min(stands, len(rows) - 1)] - sent_s[0],
        sqrt(sum(tilt * tilt for tilt in tilts_rad[:stands]) / stands) if stands else 0.0,
        sum(costs) / len(costs),
        age_ms(columns, rows),
    )


def age_ms(columns: Columns, rows: Sequence[int]) -> float:
    """Return the mean age of the newest reading that the controller holds; a request's way is half of O.

    Between two receptions the age grows with time; a reading older than the one held changes nothing. 0 for fewer
    than two that are newer than those before (S. Kaul, R. Yates, M. Gruteser, Real-time status, INFOCOM 2012).
    """
    sent, received, robot = (columns[name] for name in ("sent_ns", "received_ns", "robot_ns"))
    stamps = sorted((received[row], sent[row] + (received[row] - sent[row] - robot[row]) / 2) for row in rows)
    first, (since, newest), area = stamps[0][0], stamps[0], 0.0
    for came, measured in stamps[1:]:
        if measured > newest:
            area += (came - since) * ((since - newest) + (came - newest)) / 2
            since, newest = came, measured
    return area / (since - first) / 1e6 if since > first else 0.0


def misses(columns: Columns, rows: Sequence[int], interval_ns: int) -> int:
    """Return the most messages of any WINDOW in a row whose answer had not come when the next one was due."""
    due, received, state = (columns[name] for name in ("due_ns", "received_ns", "state"))
    missed = [state[row] not in (ANSWERED, LATE) or received[row] - due[row] > interval_ns for row in rows]
    return max(missed[at : at + WINDOW].count(True) for at in range(max(1, len(missed) - WINDOW + 1)))


def _tilt(columns: Any, row: int) -> str:
    tilt_urad = columns["tilt_urad"][row]
    return "" if tilt_urad == ABSENT else str(round(tilt_urad / 1000))


def _column(name: str) -> Any:
    return lambda columns, row: "" if columns[name][row] == ABSENT else str(columns[name][row])


# samples.csv has these fields beside the latencies of a row.
SAMPLES = {"tilt_mrad": _tilt, "level": _column("level"), "used": _column("used")}
