"""The design of `lqr`: a sampled linear-quadratic regulator by Bryson's rule, each weight one over a largest square.

Needs numpy and scipy: it runs in tests and in the image of the report, never on the host.
"""

from typing import Any

import numpy as np
from scipy.linalg import solve_discrete_are

from looplab.experiments.balance.plant import State
from looplab.experiments.balance.report.theory import sampled

INTERVAL_S = 0.02
# The way, speed, tilt and rate that are as bad as 4 V: the cost of figures.py has the same tilt and voltage.
LARGEST = State(x_m=0.2, v_m_s=0.5, tilt_rad=0.1, rate_rad_s=1.0)
LARGEST_V = 4.0


def lqr(interval_s: float = INTERVAL_S) -> tuple[float, ...]:
    """Return the gains k of u = -k . (x, v, tilt, rate) in V per unit of each, without a thought of delay."""
    a, b = sampled(interval_s)
    q, r = np.diag([1 / most**2 for most in LARGEST]), np.array([[1 / LARGEST_V**2]])
    p: Any = solve_discrete_are(a, b, q, r)
    gains = np.linalg.solve(r + b.T @ p @ b, b.T @ p @ a)
    return tuple(float(gain) for gain in gains[0])
