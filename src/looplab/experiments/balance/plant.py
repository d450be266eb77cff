"""The robot on two wheels, and the law that balances it: an inverted pendulum driven by the voltage of its wheels.

x is the wheels' way, th the tilt of the body (0 upright, positive forwards), tau the torque from body to wheels:

    (m_b + m_w + J_w/r^2) x'' + m_b l cos(th) th'' - m_b l sin(th) th'^2 = tau/r
    m_b l cos(th) x'' + (m_b l^2 + J_b) th'' - m_b g l sin(th)           = -tau
    tau = (K/R) (u - K (x'/r - th'))
    u = -(k_x x + k_v x' + k_tilt th + k_rate th')

The equations of Y. Yamamoto, NXTway-GS Model-Based Design (MathWorks, 2008), without yaw, friction and the rotor's
inertia; a test compares the matrices. `images/robot/plant.c` has the same model in C: keep names and order alike.
The parameters are those of a robot like the mBot Ranger. None is printed by its maker: all are assumptions.
"""

from collections.abc import Sequence
from math import cos, isfinite, pi, sin
from typing import NamedTuple

GRAVITY_M_S2 = 9.81
BODY_KG = 0.85  # frame, board, six AA cells
WHEELS_KG = 0.12  # both
WHEEL_RADIUS_M = 0.032
CENTRE_M = 0.07  # from the axle to the body's centre of mass
BODY_HEIGHT_M = 0.16  # a bar of even mass
BODY_INERTIA_KG_M2 = BODY_KG * BODY_HEIGHT_M**2 / 12
WHEELS_INERTIA_KG_M2 = WHEELS_KG * WHEEL_RADIUS_M**2 / 2  # discs
MOTOR_V_S_RAD = 0.2  # K behind the gear: 350 turns a minute at 7.4 V
MOTORS_OHM = 1.5  # R of both in parallel
U_MAX_V = 7.4
FALLEN_RAD = pi / 4
# A command byte is 128 + level; level 64 is no voltage.
LEVEL_ZERO = 64
LEVEL_V = U_MAX_V / 63
# k_x in V/m, k_v in V/(m/s), k_tilt in V/rad, k_rate in V/(rad/s): a sampled linear-quadratic regulator at 20 ms.
GAINS = (-3.481, -10.010, -11.909, -1.020)

_A = BODY_KG + WHEELS_KG + WHEELS_INERTIA_KG_M2 / WHEEL_RADIUS_M**2
_B = BODY_KG * CENTRE_M
_C = BODY_KG * CENTRE_M**2 + BODY_INERTIA_KG_M2


class State(NamedTuple):
    """The wheels' way and speed, the body's tilt and its rate."""

    x_m: float = 0.0
    v_m_s: float = 0.0
    tilt_rad: float = 0.0
    rate_rad_s: float = 0.0


def derivative(v_m_s: float, tilt_rad: float, rate_rad_s: float, u_v: float) -> tuple[float, float]:
    """Return x'' in m/s^2 and th'' in rad/s^2 under the voltage `u_v`."""
    torque = MOTOR_V_S_RAD / MOTORS_OHM * (u_v - MOTOR_V_S_RAD * (v_m_s / WHEEL_RADIUS_M - rate_rad_s))
    sine, coupling = sin(tilt_rad), _B * cos(tilt_rad)
    push = torque / WHEEL_RADIUS_M + _B * sine * rate_rad_s * rate_rad_s
    turn = _B * GRAVITY_M_S2 * sine - torque
    determinant = _A * _C - coupling * coupling
    return (_C * push - coupling * turn) / determinant, (_A * turn - coupling * push) / determinant


def level_of(u_v: float) -> int:
    """Return the level nearest to a voltage, saturated at U_MAX_V; raise ValueError for NaN or infinity."""
    if not isfinite(u_v):
        raise ValueError(f"the controller asks for {u_v} V: its gains diverge; check `GAINS`")
    return LEVEL_ZERO + round(max(-U_MAX_V, min(U_MAX_V, u_v)) / LEVEL_V)


def volts_of(level: int) -> float:
    """Return the voltage of a level from 0 to 127; level 0 is as strong as level 1."""
    return max(-63, level - LEVEL_ZERO) * LEVEL_V


def reading(text: str) -> State:
    """Return the state in an answer, in the units of State; raise ValueError if it is no answer."""
    tilt, rate, x, v = (int(part) / 1000 for part in text.split())
    return State(x, v, tilt, rate)


def law(gains: Sequence[float], state: State) -> int:
    """Return the level that the law with these gains asks for; raise ValueError if its voltage is not finite."""
    return level_of(-sum(gain * value for gain, value in zip(gains, state, strict=True)))
