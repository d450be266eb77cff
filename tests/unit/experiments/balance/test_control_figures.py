"""The figures of control: of known truth, and as run.json has them."""

import pytest

from looplab.experiments.balance import figures
from looplab.experiments.balance.document import control_figures
from looplab.experiments.balance.plant import FALLEN_RAD, LEVEL_ZERO, level_of
from looplab.run.samples import ABSENT, ANSWERED


def test_figures_of_control() -> None:
    level = level_of(4.0)
    stands = figures.control([0.0, 1.0, 2.0, 3.0], [0.1, -0.1, 0.1, -0.1], [level] * 4)
    assert stands.seconds == stands.upright_s == 3
    assert stands.angle_rms_rad == pytest.approx(0.1, abs=0.0002)
    assert stands.cost == pytest.approx(2, abs=0.03)
    # What it measures of a robot that lies is a whole milliradian.
    fallen = figures.control([0.0, 1.0, 2.0], [0.1, 0.785, 0.785], [64] * 3)
    assert (fallen.seconds, fallen.upright_s) == (2, 1)
    assert fallen.cost == pytest.approx((1 + 2 * (FALLEN_RAD / 0.1) ** 2) / 3)


def test_age_and_misses_of_known_truth() -> None:
    # Read at 0, 1, 2, received 0.5 later; one that comes late and is older changes nothing.
    assert figures.age([(0, 0.5), (1, 1.5), (0.2, 1.7), (2, 2.5)]) == pytest.approx(1.0)
    assert figures.age([(0, 0.5)]) == 0
    assert figures.misses([True] * 5 + [False] * 3 + [True] * 8 + [False] * 2) == 5 - 2
    assert figures.misses([False] * 3) == 3


def test_age_is_that_of_what_was_read_and_none_without() -> None:
    """Readings at half of O, 2 ms after each request, come after 8 ms; without any nothing is known."""
    ms = 1_000_000
    columns: dict[str, list[int]] = {
        "tilt_urad": [0] * 3, "level": [LEVEL_ZERO] * 3, "state": [ANSWERED] * 3, "robot_ns": [4 * ms] * 3,
        "due_ns": [0, 20 * ms, 40 * ms], "sent_ns": [0, 20 * ms, 40 * ms],
        "received_ns": [8 * ms, 28 * ms, 48 * ms],
    }  # fmt: skip
    assert control_figures(columns, [range(3)], 20 * ms)["age_ms"] == pytest.approx(16)
    found = control_figures({**columns, "tilt_urad": [ABSENT] * 3}, [range(3)], 20 * ms)
    assert [found[name] for name in ("seconds", "upright_s", "angle_rms_rad", "cost", "age_ms")] == [None] * 5
