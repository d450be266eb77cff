"""The linear loop, sampled: does it stand at an interval and a delay?

The plant near upright, u by the law of the state at k h, which the wheels have from (k + d) h to (k + d + 1) h.
The loop stands if the spectral radius of one interval's matrix is below 1 (K. J. Åström, B. Wittenmark,
Computer-Controlled Systems, 3.2: delays longer than one interval). Needs numpy and scipy.

Request k brings a command and takes the next reading at the same moment. The command that follows from it leaves with
the first request after the answer: d is T/h rounded up, whatever T is below that.
"""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.signal import cont2discrete

from looplab.experiments.balance.plant import GAINS, derivative

Matrix = NDArray[np.float64]
Gains = Sequence[float]
# No answer is waited for longer.
LONGEST_S = 10.0
_STATES = 4
_PROBE = 1e-6
_NEUTRAL = 1e-6


def continuous() -> tuple[Matrix, Matrix]:
    """Return A and B of the plant upright, x' = A x + B u, by central differences of its equations."""
    columns = []
    for at in range(_STATES):
        v, tilt, rate = (_PROBE if at == one else 0.0 for one in (1, 2, 3))
        up, down = derivative(v, tilt, rate, 0.0), derivative(-v, -tilt, -rate, 0.0)
        speed = [float(at == 1), float(at == 3)]
        columns.append([speed[0], (up[0] - down[0]) / (2 * _PROBE), speed[1], (up[1] - down[1]) / (2 * _PROBE)])
    (dv, dr) = derivative(0.0, 0.0, 0.0, 1.0)
    return np.array(columns).T, np.array([[0.0], [dv], [0.0], [dr]])


def sampled(time_s: float) -> tuple[Matrix, Matrix]:
    """Return what the state becomes in `time_s` by itself, and under a voltage of 1 V."""
    ahead, under_voltage, *_ = cont2discrete((*continuous(), np.eye(_STATES), np.zeros((_STATES, 1))), time_s)
    return ahead, under_voltage


def step_matrix(gains: Gains, interval_s: float, delay: int) -> Matrix:
    """Return the matrix of one interval; its state: x, v, tilt, rate, the last `delay` commands (newest first)."""
    # The newest command moves up each interval; the oldest one drives the wheels.
    matrix = np.eye(_STATES + delay, k=-1)
    matrix[: _STATES + 1] = 0.0
    matrix[:_STATES, :_STATES], matrix[:_STATES, -1:] = sampled(interval_s)
    matrix[_STATES, :_STATES] = np.negative(gains)
    return matrix


def spectral_radius(gains: Gains, interval_s: float, delay: int = 1) -> float:
    """Return how much the largest mode grows in one interval, with a delay of so many; the robot falls from 1 on.

    Without the mode of 1 that a law without k_x has: no matter where the robot stands, it stays there.
    """
    modes = np.linalg.eigvals(step_matrix(gains, interval_s, delay))
    return float(np.abs(modes[np.abs(modes - 1) > _NEUTRAL]).max())


def intervals_of_delay(total_s: float, interval_s: float) -> int:
    """Return how many intervals lie between a reading and the command that follows from it, if each T is `total_s`."""
    return max(1, ceil(min(total_s, LONGEST_S) / interval_s))


def gains_of_run(parameters: Mapping[str, Any]) -> tuple[float, ...]:
    """Return the gains that a run had."""
    return tuple(parameters.get("gains") or GAINS)
