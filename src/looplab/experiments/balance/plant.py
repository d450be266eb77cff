"""The robot on two wheels, and the law that balances it: an inverted pendulum driven by the voltage of its wheels.

x is the wheels' way, th the tilt of the body (0 upright, positive forwards), tau the torque from body to wheels:

    (m_b + m_w + J_w/r^2) x'' + m_b l cos(th) th'' - m_b l sin(th) th'^2 = tau/r
    m_b l cos(th) x'' + (m_b l^2 + J_b) th'' - m_b g l sin(th)           = -tau
    tau = (K/R) (u - K (x'/r - th'))
    u = -(k_x x + k_v x' + k_tilt th + k_rate th')

The equations of Y. Yamamoto, NXTway-GS Model-Based Design (MathWorks, 2008), without yaw, friction and the rotor's
inertia; a test compares the matrices. `images/robot/plant.c` is the same model in C: keep names and order alike.
The parameters are those of a robot like the mBot Ranger. None is printed by its maker: all are assumptions.
"""

from collections.abc import Sequence
from math import cos, isfinite, pi, sin
from typing import NamedTuple

STEP_S = 0.001  # Runge-Kutta of order 4; the fastest pole is at 9 ms
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
START_TILT_RAD = 2 * pi / 180
# Each push turns the body by this rate; its sign alternates.
PUSH_RAD_S = 0.7
PUSH_FIRST_S, PUSH_EVERY_S = 1.0, 2.0
# A command byte is 128 + level; level 64 is no voltage.
LEVELS, LEVEL_ZERO = 128, 64
LEVEL_V = U_MAX_V / 63
# k_x in V/m, k_v in V/(m/s), k_tilt in V/rad, k_rate in V/(rad/s): a sampled linear-quadratic regulator at 20 ms.
GAINS = (-3.481, -10.010, -11.909, -1.020)

_A = BODY_KG + WHEELS_KG + WHEELS_INERTIA_KG_M2 / WHEEL_RADIUS_M**2
_B = BODY_KG * CENTRE_M
_C = BODY_KG * CENTRE_M**2 + BODY_INERTIA_KG_M2
_FIRST, _EVERY = round(PUSH_FIRST_S / STEP_S), round(PUSH_EVERY_S / STEP_S)


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


def step(state: State, u_v: float, step_s: float = STEP_S) -> State:
    """Return the state after one step of Runge-Kutta under a constant voltage."""
    x, v, tilt, rate = state
    half = step_s / 2
    dv1, dr1 = derivative(v, tilt, rate, u_v)
    v2, rate2 = v + half * dv1, rate + half * dr1
    dv2, dr2 = derivative(v2, tilt + half * rate, rate2, u_v)
    v3, rate3 = v + half * dv2, rate + half * dr2
    dv3, dr3 = derivative(v3, tilt + half * rate2, rate3, u_v)
    v4, rate4 = v + step_s * dv3, rate + step_s * dr3
    dv4, dr4 = derivative(v4, tilt + step_s * rate3, rate4, u_v)
    sixth = step_s / 6
    return State(
        x + sixth * (v + 2 * v2 + 2 * v3 + v4),
        v + sixth * (dv1 + 2 * dv2 + 2 * dv3 + dv4),
        tilt + sixth * (rate + 2 * rate2 + 2 * rate3 + rate4),
        rate + sixth * (dr1 + 2 * dr2 + 2 * dr3 + dr4),
    )


def level_of(u_v: float) -> int:
    """Return the level nearest to a voltage, saturated at U_MAX_V; raise ValueError for NaN or infinity."""
    if not isfinite(u_v):
        raise ValueError(f"the controller asks for {u_v} V: its gains diverge; check `GAINS`")
    return LEVEL_ZERO + round(max(-U_MAX_V, min(U_MAX_V, u_v)) / LEVEL_V)


def volts_of(level: int) -> float:
    """Return the voltage of a level from 0 to 127; level 0 is as strong as level 1."""
    return max(-63, level - LEVEL_ZERO) * LEVEL_V


class Plant:
    """The robot in the lab: held at START_TILT_RAD until the first command, pushed while it stands, fallen for good."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Set the robot upright again and hold it."""
        self.state = State(tilt_rad=START_TILT_RAD)
        self.level = LEVEL_ZERO
        self.released = self.fallen = False
        # Since the release; they stop where it falls.
        self.steps = 0

    def command(self, level: int) -> None:
        """Set the wheels' voltage, and let go of a robot that is held."""
        self.level, self.released = level, True

    def advance(self, steps: int = 1) -> None:
        """Let `steps` milliseconds pass."""
        u_v = volts_of(self.level)
        for _ in range(steps if self.released else 0):
            if self.fallen:
                return
            if self.steps >= _FIRST and (self.steps - _FIRST) % _EVERY == 0:
                sign = 1 if (self.steps - _FIRST) // _EVERY % 2 == 0 else -1
                self.state = self.state._replace(rate_rad_s=self.state.rate_rad_s + sign * PUSH_RAD_S)
            self.state = step(self.state, u_v)
            self.steps += 1
            self.fallen = abs(self.state.tilt_rad) > FALLEN_RAD


def answer(state: State) -> str:
    """Return what the robot answers: tilt in mrad, rate in mrad/s, way in mm, speed in mm/s: integers and spaces."""
    return " ".join(str(round(1000 * value)) for value in (state.tilt_rad, state.rate_rad_s, state.x_m, state.v_m_s))


def reading(text: str) -> State:
    """Return the state in an answer, in the units of State; raise ValueError if it is no answer."""
    tilt, rate, x, v = (int(part) / 1000 for part in text.split())
    return State(x, v, tilt, rate)


def law(gains: Sequence[float], state: State) -> int:
    """Return the level that the law with these gains asks for; raise ValueError if its voltage is not finite."""
    return level_of(-sum(gain * value for gain, value in zip(gains, state, strict=True)))
