"""The linear loop: against its delay margin, and against plant and law driven in time."""

import numpy as np
import pytest
from scipy.optimize import brentq
from support.plant_model import STEP_S, Plant

from looplab.experiments.balance.plant import GAINS, State, law
from looplab.experiments.balance.report import theory
from looplab.experiments.balance.report.theory import spectral_radius

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
