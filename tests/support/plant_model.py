"""The robot on its two wheels in Python: the model that images/robot/plant.c is tested against."""

from math import pi

from looplab.experiments.balance.plant import FALLEN_RAD, LEVEL_ZERO, State, derivative, volts_of

STEP_S = 0.001  # Runge-Kutta of order 4; the fastest pole is at 9 ms
START_TILT_RAD = 2 * pi / 180
# Each push turns the body by this rate; its sign alternates.
PUSH_RAD_S = 0.7
PUSH_FIRST_S, PUSH_EVERY_S = 1.0, 2.0
_FIRST, _EVERY = round(PUSH_FIRST_S / STEP_S), round(PUSH_EVERY_S / STEP_S)


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
