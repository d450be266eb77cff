"""The robot on its two wheels in Python: the model that images/robot/plant.c is tested against."""

from math import pi

from looplab.experiments.balance.plant import FALLEN_RAD, LEVEL_ZERO, State, derivative, volts_of

STEP_S = 0.001  # Runge-Kutta of order 4; the fastest pole is at 9 ms
START_TILT_RAD = 2 * pi / 180
# Each push turns the body by this rate; its sign alternates.
PUSH_RAD_S = 0.7
PUSH_FIRST_S, PUSH_EVERY_S = 1.0, 2.0
_FIRST, _EVERY = round(PUSH_FIRST_S / STEP_S), round(PUSH_EVERY_S / STEP_S)


def step(state: State, u_v: float) -> State:
    """Return the state after one step of Runge-Kutta under a constant voltage."""

    def slopes(at: State) -> State:
        dv, drate = derivative(at.v_m_s, at.tilt_rad, at.rate_rad_s, u_v)
        return State(at.v_m_s, dv, at.rate_rad_s, drate)

    def after(by_s: float, by: State) -> State:
        return State(*(value + by_s * slope for value, slope in zip(state, by, strict=True)))

    first = slopes(state)
    second = slopes(after(STEP_S / 2, first))
    third = slopes(after(STEP_S / 2, second))
    fourth = slopes(after(STEP_S, third))
    mean = (a + 2 * b + 2 * c + d for a, b, c, d in zip(first, second, third, fourth, strict=True))
    return after(STEP_S / 6, State(*mean))


class Plant:
    """The robot in the lab: held at START_TILT_RAD until the first command, pushed while it stands, fallen for good."""

    def __init__(self) -> None:
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
