"""The plant and the controllers' laws against theory, an independent model and the size of the step."""

from math import pi

import numpy as np
import pytest

from looplab.errors import UsageError
from looplab.experiments.balance import plant
from looplab.experiments.balance.laws import GAINS, LQR, PID, Law
from looplab.experiments.balance.plant import Plant, State, answer, level_of, reading, step, volts_of
from looplab.experiments.balance.report import design, theory


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


def test_a_step_ten_times_shorter_changes_nothing() -> None:
    ends = []
    for step_s in (plant.STEP_S, plant.STEP_S / 10):
        state, law = State(tilt_rad=0.1), Law(LQR, 0.02)
        for _ in range(50):
            u_v = law.volts(state)
            for _ in range(round(0.02 / step_s)):
                state = step(state, u_v, step_s)
        ends.append(state)
    assert np.array(ends[0]) == pytest.approx(np.array(ends[1]), abs=1e-6)


def test_it_is_held_until_the_first_command_and_lies_for_good() -> None:
    robot = Plant()
    robot.advance(500)
    assert robot.state == State(tilt_rad=plant.START_TILT_RAD)
    robot.command(plant.LEVEL_ZERO)
    robot.advance(2000)
    assert robot.fallen
    lies, steps = robot.state, robot.steps
    robot.command(127)
    robot.advance(500)
    assert (robot.state, robot.steps) == (lies, steps)
    robot.reset()
    assert (robot.fallen, robot.state.tilt_rad) == (False, plant.START_TILT_RAD)


def test_pushes_come_as_stated_and_alternate() -> None:
    robot = Plant()
    robot.command(plant.LEVEL_ZERO)
    rates = []
    for _ in range(5000):
        robot.state = State()
        robot.advance()
        rates.append(robot.state.rate_rad_s)
    pushed = [at for at, rate in enumerate(rates) if abs(rate) > plant.PUSH_RAD_S / 2]
    assert pushed == [1000, 3000]
    assert rates[1000] > 0 > rates[3000]


def test_levels_saturate_and_nan_is_named() -> None:
    assert [level_of(u_v) for u_v in (-99.0, -plant.U_MAX_V, 0.0, plant.U_MAX_V, 99.0)] == [1, 1, 64, 127, 127]
    assert volts_of(0) == volts_of(1) == -plant.U_MAX_V
    assert volts_of(127) == pytest.approx(plant.U_MAX_V)
    for u_v in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="GAINS"):
            level_of(u_v)


def test_an_answer_is_read_back_to_its_resolution() -> None:
    state = State(0.1234, -0.0567, 0.7854, -12.3456)
    assert answer(state) == "785 -12346 123 -57"
    assert reading(answer(state)) == pytest.approx(state, abs=0.0005)
    with pytest.raises(ValueError, match="unpack"):
        reading("1 2 3")


def test_the_stored_gains_are_those_of_the_design() -> None:
    assert GAINS[LQR] == pytest.approx(design.lqr(), rel=1e-3)
    assert GAINS[PID][0] == -GAINS[LQR][2]
    assert GAINS[PID][2] == -GAINS[LQR][3]


@pytest.mark.parametrize(
    ("name", "gains", "named"),
    [("bang", (), "CONTROLLER"), (LQR, (1, 2), "4"), (PID, (1, 2, float("nan")), "3 finite"), (PID, (1, 2, 1e9), "3")],
)
def test_bad_gains_are_rejected_by_name(name: str, gains: tuple[float, ...], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        Law(name, 0.02, gains)


def test_the_feedback_of_theory_is_what_the_law_does() -> None:
    state = State(0.1, -0.2, 0.03, 0.4)
    for name in GAINS:
        law = Law(name, 0.02)
        law.integral = 0.05
        wanted = np.dot(law.feedback(), [*state, law.integral])
        assert law.volts(state) == pytest.approx(wanted)
        assert law.integral == pytest.approx(0.05 + 0.03 * 0.02)
        law.reset()
        assert law.integral == 0
