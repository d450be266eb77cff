"""The figures of control of a cell; lists of one entry a reading or message."""

from collections.abc import Iterable, Sequence
from math import sqrt
from typing import NamedTuple

from looplab.experiments.balance.plant import FALLEN_RAD, volts_of

# The tilt and the voltage that cost 1, as `lqr` is designed.
COST_RAD, COST_V = 0.1, 4.0
WINDOW = 10
# Readings are whole milliradians.
_FALLEN_RAD = int(1000 * FALLEN_RAD) / 1000


class Control(NamedTuple):
    """How long it was watched and stood, RMS of its tilt while it stood, mean quadratic cost over all readings."""

    seconds: float
    upright_s: float
    angle_rms_rad: float
    cost: float


def control(moments_s: Sequence[float], tilts_rad: Sequence[float], levels: Sequence[int]) -> Control:
    """Return the figures of one repetition by its readings: when, the tilt, and the command that the wheels had.

    A reading costs (tilt / 0.1 rad)^2 + (u / 4 V)^2. A fallen robot costs on as it lies: 45 degrees, no voltage.
    """
    stands = next((at for at, tilt in enumerate(tilts_rad) if abs(tilt) >= _FALLEN_RAD), len(tilts_rad))
    end = min(stands, len(moments_s) - 1)
    costs = [
        (tilt / COST_RAD) ** 2 + (volts_of(level) / COST_V) ** 2
        for tilt, level in zip(tilts_rad[:stands], levels[:stands], strict=True)
    ]
    costs += [(FALLEN_RAD / COST_RAD) ** 2] * (len(tilts_rad) - stands)
    return Control(
        moments_s[-1] - moments_s[0],
        moments_s[end] - moments_s[0],
        sqrt(sum(tilt * tilt for tilt in tilts_rad[:stands]) / stands) if stands else 0.0,
        sum(costs) / len(costs),
    )


def age(stamps: Iterable[tuple[float, float]]) -> float:
    """Return the mean age of the newest reading that the controller holds, by (measured, received) of each.

    Between two receptions the age grows with time; a reading older than the one held changes nothing. 0 for fewer
    than two that are newer than those before (S. Kaul, R. Yates, M. Gruteser, Real-time status, INFOCOM 2012).
    """
    area, first, newest, since = 0.0, None, 0.0, 0.0
    for measured, received in sorted(stamps, key=lambda pair: pair[1]):
        if first is None:
            first, newest, since = received, measured, received
        elif measured > newest:
            area += (received - since) * ((since - newest) + (received - newest)) / 2
            newest, since = measured, received
    return area / (since - first) if first is not None and since > first else 0.0


def misses(in_time: Sequence[bool]) -> int:
    """Return the most messages of any WINDOW in a row whose answer had not come when the next one left."""
    missed = [not one for one in in_time]
    return max(sum(missed[at : at + WINDOW]) for at in range(max(1, len(missed) - WINDOW + 1)))
