"""The linear loop, sampled: does it stand at an interval and a delay, and from which on does it fall?

The plant near upright, u by the law of the state at k h, which the wheels have from k h + d to
(k + 1) h + d. The loop stands if the spectral radius of one interval's matrix is below 1 (K. J. Åström, B. Wittenmark,
Computer-Controlled Systems, 3.2: delays longer than one interval). Needs numpy and scipy.

Request k brings a command and takes the next reading at the same moment. The command that follows from it leaves with
the first request after the answer: d is a whole number of intervals, T/h rounded up, whatever T is below that.
"""

from collections.abc import Callable, Mapping, Sequence
from math import ceil, floor
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.signal import cont2discrete

from looplab.experiments.balance.plant import GAINS, derivative

Matrix = NDArray[np.float64]
Gains = Sequence[float]
LONGEST_S = 1.0
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


def step_matrix(gains: Gains, interval_s: float, delay_s: float) -> Matrix:
    """Return the matrix of one interval; its state: x, v, tilt, rate, earlier commands (newest first)."""
    intervals = floor(delay_s / interval_s + 1e-9)
    rest_s = max(0.0, delay_s - intervals * interval_s)
    ahead, early = sampled(interval_s)
    _, late = sampled(interval_s - rest_s)
    size = _STATES + intervals + 1
    matrix = np.zeros((size, size))
    row = np.zeros(size)
    row[:_STATES] = np.negative(gains)
    commands = _STATES
    matrix[:_STATES, :_STATES] = ahead
    # Until `rest_s` the wheels still have the command of an interval earlier.
    newest = row if intervals == 0 else np.eye(size)[commands + intervals - 1]
    matrix[:_STATES] += late @ newest[None] + (early - late) @ np.eye(size)[[commands + intervals]]
    matrix[commands] = row
    for at in range(commands + 1, size):
        matrix[at, at - 1] = 1.0
    return matrix


def spectral_radius(gains: Gains, interval_s: float, delay_s: float) -> float:
    """Return how much the largest mode grows in one interval; the robot falls from 1 on.

    Without the mode of 1 that a law without k_x has: no matter where the robot stands, it stays there.
    """
    modes = np.linalg.eigvals(step_matrix(gains, interval_s, delay_s))
    return float(np.abs(modes[np.abs(modes - 1) > _NEUTRAL]).max())


def falling_interval(gains: Gains) -> float:
    """Return the interval in s from which on the robot falls, if each answer comes within it: d = h."""
    return _first(lambda interval_s: spectral_radius(gains, interval_s, interval_s))


def falling_delay(gains: Gains, interval_s: float) -> float:
    """Return the delay in s from which on the robot falls at an interval; 0 if it falls without one."""
    return _first(lambda delay_s: spectral_radius(gains, interval_s, delay_s))


def _first(radius: Callable[[float], float]) -> float:
    """Return the smallest argument at which a radius passes 1, LONGEST_S if there is none below."""
    grid = np.linspace(0.001, LONGEST_S, 1000)
    above = next((at for at, value in enumerate(grid) if radius(value) >= 1), None)
    if above is None:
        return LONGEST_S
    return float(brentq(lambda value: radius(value) - 1, grid[above - 1], grid[above])) if above else 0.0


def delay_margin(gains: Gains) -> float:
    """Return the delay margin in s of the loop without sampling: the smallest phase margin over its frequency."""
    omega = np.logspace(-1, 3, 20_000)
    a, b = continuous()
    gain = np.linalg.solve(1j * omega[:, None, None] * np.eye(_STATES) - a, b)[..., 0] @ np.array(gains)
    crossings = np.flatnonzero(np.diff(np.sign(np.abs(gain) - 1)))
    margins = [(np.angle(-gain[at]) % (2 * np.pi)) / omega[at] for at in crossings]
    return float(min(margins, default=np.inf))


def intervals_of_delay(total_s: float, interval_s: float) -> int:
    """Return how many intervals lie between a reading and the command that follows from it, if each T is `total_s`."""
    return max(1, ceil(min(total_s, 10 * LONGEST_S) / interval_s))


def gains_of_run(parameters: Mapping[str, Any]) -> tuple[float, ...]:
    """Return the gains that a run of balance had; for a run of the loop the designed ones."""
    return tuple(parameters.get("gains") or GAINS)
