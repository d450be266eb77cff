"""The plant, the controllers' laws, and the linear loop: by theory, an independent model and each other."""

from math import pi

import numpy as np
import pytest
from scipy.linalg import solve_discrete_are
from scipy.optimize import brentq
from support.plant_model import STEP_S, Plant, step

from looplab.experiments.balance import plant
from looplab.experiments.balance.document import COST_RAD, COST_V
from looplab.experiments.balance.plant import GAINS, State, law, level_of, volts_of
from looplab.experiments.balance.report import theory
from looplab.experiments.balance.report.theory import spectral_radius


def test_the_plant_is_that_of_the_source() -> None:
    """Yamamoto's matrices with his wheel angle x / r, without friction and the rotor's inertia."""
    r, both = plant.WHEEL_RADIUS_M, plant.MOTOR_V_S_RAD / plant.MOTORS_OHM
    e_11 = (plant.WHEELS_KG + plant.BODY_KG) * r**2 + plant.WHEELS_INERTIA_KG_M2
    e_12 = plant.BODY_KG * plant.CENTRE_M * r
    e_22 = plant.BODY_KG * plant.CENTRE_M**2 + plant.BODY_INERTIA_KG_M2
    beta = both * plant.MOTOR_V_S_RAD
    e = np.array([[e_11, e_12], [e_12, e_22]])
    f = np.array([[beta, -beta], [-beta, beta]])
    g = np.diag([0, -plant.BODY_KG * plant.GRAVITY_M_S2 * plant.CENTRE_M])
    wheel_and_tilt = np.linalg.solve(e, np.hstack([-g, -f, [[both], [-both]]]))
    a, b = theory.continuous()
    assert a[3] == pytest.approx([0, wheel_and_tilt[1, 2] / r, wheel_and_tilt[1, 1], wheel_and_tilt[1, 3]], rel=1e-6)
    assert a[1] / r == pytest.approx(
        [0, wheel_and_tilt[0, 2] / r, wheel_and_tilt[0, 1], wheel_and_tilt[0, 3]], rel=1e-6
    )
    assert [b[1, 0] / r, b[3, 0]] == pytest.approx(wheel_and_tilt[:, 4], rel=1e-6)


def test_without_motors_the_energy_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plant, "MOTOR_V_S_RAD", 0.0)

    def energy(state: State) -> float:
        _, v, tilt, rate = state
        moving = plant._A * v * v + 2 * plant._B * np.cos(tilt) * v * rate + plant._C * rate * rate
        return float(moving / 2 + plant._B * plant.GRAVITY_M_S2 * np.cos(tilt))

    first = state = State(tilt_rad=0.3)
    for _ in range(400):
        state = step(state, 0.0)
    assert abs(state.tilt_rad) > pi / 4
    assert energy(state) == pytest.approx(energy(first), rel=1e-7)


def test_levels_saturate_and_nan_is_named() -> None:
    assert [level_of(u_v) for u_v in (-99.0, -plant.U_MAX_V, 0.0, plant.U_MAX_V, 99.0)] == [1, 1, 64, 127, 127]
    assert volts_of(0) == volts_of(1) == -plant.U_MAX_V
    assert volts_of(127) == pytest.approx(plant.U_MAX_V)
    for u_v in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="GAINS"):
            level_of(u_v)


def test_the_gains_are_those_of_the_design() -> None:
    """A sampled linear-quadratic regulator by Bryson's rule, without a thought of delay.

    Each weight is one over the largest square: of way, speed, tilt and rate, and of a voltage as bad as these.
    """
    a, b = theory.sampled(0.02)
    q, r = np.diag([1 / most**2 for most in (0.2, 0.5, COST_RAD, 1.0)]), np.array([[1 / COST_V**2]])
    p = solve_discrete_are(a, b, q, r)
    designed = np.linalg.solve(r + b.T @ p @ b, b.T @ p @ a)[0]
    assert list(designed) == pytest.approx(GAINS, rel=1e-3)


LIMIT_S = brentq(lambda interval_s: spectral_radius(GAINS, interval_s) - 1, 0.02, 0.1)


def falls(interval_s: float, delay: int = 1, seconds: float = 60.0) -> bool:
    """Drive plant and law in time: each command follows from the reading of so many intervals before."""
    plant = Plant()
    states: list[State] = []
    for at in range(round(seconds / interval_s)):
        plant.advance(int(at * interval_s / STEP_S) - int((at - 1) * interval_s / STEP_S))
        if at >= delay:
            plant.command(law(GAINS, states[at - delay]))
        states.append(plant.state)
    return plant.fallen


def test_the_delay_at_which_it_falls_is_the_margin() -> None:
    """The smallest phase margin over its frequency, 93 ms; a held command is half an interval old in the mean."""
    omega = np.logspace(-1, 3, 20_000)
    a, b = theory.continuous()
    gain = np.linalg.solve(1j * omega[:, None, None] * np.eye(4) - a, b)[..., 0] @ np.array(GAINS)
    crossings = np.flatnonzero(np.diff(np.sign(np.abs(gain) - 1)))
    margin_s = min((np.angle(-gain[at]) % (2 * np.pi)) / omega[at] for at in crossings)
    assert margin_s == pytest.approx(0.093, abs=0.0005)
    assert pytest.approx(0.0614, abs=0.0001) == LIMIT_S
    assert pytest.approx(margin_s, rel=0.02) == 1.5 * LIMIT_S


@pytest.mark.parametrize(("factor", "fallen"), [(0.98, False), (1.03, True)])
def test_the_plant_falls_at_the_interval_of_theory(factor: float, fallen: bool) -> None:
    assert falls(factor * LIMIT_S) is fallen


def test_answers_beyond_the_interval_count_as_intervals() -> None:
    """T of 2.5 intervals: a command follows from a reading of three intervals before."""
    assert [theory.intervals_of_delay(s, 0.025) for s in (0.0625, 1e300)] == [3, 400]
    assert spectral_radius(GAINS, 0.025, 3) < 1 < spectral_radius(GAINS, 0.025, 4)
    assert not falls(0.025, 3)
    assert falls(0.025, 4)
