"""The linear loop, sampled: does it stand at an interval and a delay, and from which on does it fall?

The plant near upright, u = f . (x, v, tilt, rate, integral of the tilt) of the state at k h, which the wheels have from
k h + d to (k + 1) h + d. The loop stands if the spectral radius of one interval's matrix is below 1 (K. J. Åström,
B. Wittenmark, Computer-Controlled Systems, 3.2: delays longer than one interval). Needs numpy and scipy.

Request k brings a command and takes the next reading at the same moment. The command that follows from it leaves with
the first request after the answer: d is a whole number of intervals, T/h rounded up, whatever T is below that.
"""

from collections.abc import Callable, Mapping, Sequence
from math import ceil, floor
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import expm
from scipy.optimize import brentq

from looplab.experiments.balance.laws import LQR, Law
from looplab.experiments.balance.plant import derivative

Matrix = NDArray[np.float64]
Feedback = tuple[float, float, float, float, float]
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
    a, b = continuous()
    joint = np.zeros((_STATES + 1, _STATES + 1))
    joint[:_STATES, :_STATES], joint[:_STATES, _STATES:] = a, b
    grown = expm(joint * time_s)
    return grown[:_STATES, :_STATES], grown[:_STATES, _STATES:]


def step_matrix(feedback: Feedback, interval_s: float, delay_s: float) -> Matrix:
    """Return the matrix of one interval; its state: x, v, tilt, rate, integral, earlier commands (newest first)."""
    intervals = floor(delay_s / interval_s + 1e-9)
    rest_s = max(0.0, delay_s - intervals * interval_s)
    ahead, early = sampled(interval_s)
    _, late = sampled(interval_s - rest_s)
    size = _STATES + 1 + intervals + 1
    matrix = np.zeros((size, size))
    row = np.zeros(size)
    row[: _STATES + 1] = feedback
    commands = _STATES + 1
    matrix[:_STATES, :_STATES] = ahead
    matrix[_STATES, [2, _STATES]] = interval_s, 1.0
    # Until `rest_s` the wheels still have the command of an interval earlier.
    newest = row if intervals == 0 else np.eye(size)[commands + intervals - 1]
    matrix[:_STATES] += late @ newest[None] + (early - late) @ np.eye(size)[[commands + intervals]]
    matrix[commands] = row
    for at in range(commands + 1, size):
        matrix[at, at - 1] = 1.0
    return matrix


def spectral_radius(feedback: Feedback, interval_s: float, delay_s: float) -> float:
    """Return how much the largest mode grows in one interval; the robot falls from 1 on.

    Without the mode of 1 that PID and a law without k_x have: no matter where the robot stands, it stays there.
    """
    matrix = step_matrix(feedback, interval_s, delay_s)
    kept = [at for at in range(len(matrix)) if at != _STATES or feedback[_STATES]]
    modes = np.linalg.eigvals(matrix[np.ix_(kept, kept)])
    return float(np.abs(modes[np.abs(modes - 1) > _NEUTRAL]).max())


def falling_interval(feedback: Feedback) -> float:
    """Return the interval in s from which on the robot falls, if each answer comes within it: d = h."""
    return _first(lambda interval_s: spectral_radius(feedback, interval_s, interval_s))


def falling_delay(feedback: Feedback, interval_s: float) -> float:
    """Return the delay in s from which on the robot falls at an interval; 0 if it falls without one."""
    return _first(lambda delay_s: spectral_radius(feedback, interval_s, delay_s))


def _first(radius: Callable[[float], float]) -> float:
    """Return the smallest argument at which a radius passes 1, LONGEST_S if there is none below."""
    grid = np.linspace(0.001, LONGEST_S, 1000)
    above = next((at for at, value in enumerate(grid) if radius(value) >= 1), None)
    if above is None:
        return LONGEST_S
    return float(brentq(lambda value: radius(value) - 1, grid[above - 1], grid[above])) if above else 0.0


def delay_margin(feedback: Feedback) -> float:
    """Return the delay margin in s of the loop without sampling: the smallest phase margin over its frequency."""
    a, b = continuous()
    omega = np.logspace(-1, 3, 20_000)
    gain = np.array([_loop(feedback, a, b, 1j * one) for one in omega])
    crossings = np.flatnonzero(np.diff(np.sign(np.abs(gain) - 1)))
    margins = [(np.angle(-gain[at]) % (2 * np.pi)) / omega[at] for at in crossings]
    return float(min(margins, default=np.inf))


def _loop(feedback: Feedback, a: Matrix, b: Matrix, s: complex) -> complex:
    """Return the loop's gain L(s), for which 1 + L is the characteristic function."""
    state = np.linalg.solve(s * np.eye(_STATES) - a, b)[:, 0]
    return complex(-(np.array(feedback[:_STATES]) @ state + feedback[_STATES] * state[2] / s))


def intervals_of_delay(total_s: float, interval_s: float) -> int:
    """Return how many intervals lie between a reading and the command that follows from it, if each T is `total_s`."""
    return max(1, ceil(min(total_s, 10 * LONGEST_S) / interval_s))


def feedback_of(controller: str = LQR, gains: Sequence[float] = ()) -> Feedback:
    """Return the feedback of a controller by its name."""
    return Law(controller, 1.0, gains).feedback()


def feedback_of_run(parameters: Mapping[str, Any]) -> Feedback:
    """Return the feedback that a run of balance had; the designed one for a run of the loop."""
    return feedback_of(str(parameters.get("controller", LQR)), tuple(parameters.get("gains") or ()))
