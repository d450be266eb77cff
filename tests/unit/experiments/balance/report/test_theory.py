"""The linear loop: against its delay margin, and against plant and law driven in time."""

from collections.abc import Callable

import pytest

from looplab.experiments.balance import plant
from looplab.experiments.balance.plant import GAINS
from looplab.experiments.balance.replay import ReplayedMessage, largest_extra_s, replay
from looplab.experiments.balance.report import theory
from looplab.experiments.balance.report.theory import falling_delay, falling_interval, spectral_radius


def steady(interval_s: float, total_s: float = 0.004, seconds: float = 60.0) -> list[ReplayedMessage]:
    moments = [at * interval_s for at in range(round(seconds / interval_s))]
    return [ReplayedMessage(sent_s, sent_s + total_s / 2, sent_s + total_s) for sent_s in moments]


def test_the_delay_at_which_it_falls_is_the_margin() -> None:
    """A held command is half an interval old in the mean; the shorter the interval, the less else sampling does."""
    margin_s = theory.delay_margin(GAINS)
    for interval_s in (0.005, 0.02):
        assert falling_delay(GAINS, interval_s) + interval_s / 2 == pytest.approx(margin_s, rel=0.02)


def test_the_default_stands_at_20_ms_and_falls_at_100() -> None:
    radii = [spectral_radius(GAINS, interval_s, interval_s) for interval_s in (0.01, 0.02, 0.05, 0.1)]
    assert max(radii[:3]) < 0.99
    assert radii[3] > 1.2
    assert 1000 * falling_interval(GAINS) == pytest.approx(61.4, abs=0.1)


@pytest.mark.parametrize(("factor", "falls"), [(0.98, False), (1.03, True)])
def test_the_plant_falls_at_the_interval_of_theory(factor: float, falls: bool) -> None:
    interval_s = factor * falling_interval(GAINS)
    assert replay(steady(interval_s)).fallen is falls


@pytest.mark.parametrize("interval_s", [0.02, 0.05])
def test_the_extra_delay_is_that_of_theory(interval_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pushes; with them the replay falls up to 6 % earlier, which the linear loop does not know."""
    monkeypatch.setattr(plant, "PUSH_RAD_S", 0.0)
    extra_s = largest_extra_s(steady(interval_s, seconds=30.0))
    assert extra_s is not None
    assert interval_s + extra_s == pytest.approx(falling_delay(GAINS, interval_s), rel=0.02)


def test_answers_beyond_the_interval_count_as_intervals() -> None:
    """T of 2.5 intervals: a command follows from a reading of three intervals before."""
    radius: Callable[[int], float] = lambda count: spectral_radius(GAINS, 0.025, count * 0.025)  # noqa: E731
    assert [theory.intervals_of_delay(s, 0.025) for s in (0.0625, 1e300)] == [3, 400]
    assert radius(3) < 1 < radius(4)
    assert not replay(steady(0.025, 0.0625)).fallen
    assert replay(steady(0.025, 0.0875)).fallen


def test_gains_of_the_wrong_sign_fall_without_delay() -> None:
    wrong = [-gain for gain in GAINS]
    assert falling_delay(wrong, 0.02) == 0
    assert largest_extra_s(steady(0.02), wrong) is None
