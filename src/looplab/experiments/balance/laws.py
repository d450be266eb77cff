"""The controller's laws, the same for live and replayed runs: from the newest state to the next command.

    lqr  u = -(k_x x + k_v v + k_tilt tilt + k_rate rate)
    pid  e = tilt + BRAKE_RAD_S_M v;  u = kp e + ki (integral of e) + kd rate

Both drive the wheels under the body. PID of the tilt alone does not: under a constant voltage the robot stands upright
at any speed, so that it drifts. Its reference for the tilt is therefore one that brakes the wheels.
`report/design.py` computes the gains of `lqr`; those of `pid` take its P and D, and an integral with a time of 10 s.
"""

from collections.abc import Sequence
from math import isfinite

from looplab.errors import UsageError
from looplab.experiments.balance.plant import State, level_of

LQR, PID = "lqr", "pid"
# V/m, V/(m/s), V/rad, V/(rad/s); V/rad, V/(rad s), V/(rad/s).
GAINS = {LQR: (-3.481, -10.010, -11.909, -1.020), PID: (11.909, 1.191, 1.020)}
# With these gains the robot falls from this interval on, if each answer comes within it (theory.falling_interval).
FALLS_FROM_MS = {LQR: 61.4, PID: 60.0}
# rad per m/s, as LQR weighs speed against tilt.
BRAKE_RAD_S_M = 0.84
# No robot has a larger gain, and with this one no product of gain and state overflows.
MOST_GAIN = 1e6


class Law:
    """One controller: `level` is asked once for each command, `interval_s` apart."""

    def __init__(self, name: str, interval_s: float, gains: Sequence[float] = ()) -> None:
        """Raise UsageError for an unknown name or for gains that are too few, too many or not finite."""
        usual = GAINS.get(name)
        if usual is None:
            raise UsageError(f"`CONTROLLER={name}` is unknown.", f"Set it to {' or '.join(GAINS)}.")
        self.gains = tuple(gains or usual)
        if len(self.gains) != len(usual) or not all(isfinite(gain) and abs(gain) <= MOST_GAIN for gain in self.gains):
            raise UsageError(
                f"`GAINS` must be {len(usual)} finite numbers for CONTROLLER={name}, each at most {MOST_GAIN:g}.",
                f"The usual ones: GAINS='{' '.join(map(str, usual))}'.",
            )
        self.name, self.interval_s, self.integral = name, interval_s, 0.0

    def reset(self) -> None:
        """Forget what happened: the robot is upright again."""
        self.integral = 0.0

    def feedback(self) -> tuple[float, float, float, float, float]:
        """Return it as u = f . (x, v, tilt, rate, integral of the tilt): what theory needs."""
        if self.name == LQR:
            x, v, tilt, rate = self.gains
            return -x, -v, -tilt, -rate, 0.0
        kp, ki, kd = self.gains
        return ki * BRAKE_RAD_S_M, kp * BRAKE_RAD_S_M, kp, kd, ki

    def volts(self, state: State) -> float:
        """Return the voltage that follows from a state; the integral of v is the wheels' way."""
        x, v, tilt, rate, integral = self.feedback()
        u_v = (
            x * state.x_m + v * state.v_m_s + tilt * state.tilt_rad + rate * state.rate_rad_s + integral * self.integral
        )
        self.integral += state.tilt_rad * self.interval_s
        return u_v

    def level(self, state: State) -> int:
        """Return the command that follows from a state, 0 to 127; ValueError if the voltage is not finite."""
        return level_of(self.volts(state))
