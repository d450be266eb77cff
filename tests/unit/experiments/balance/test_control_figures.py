"""The figures of control: of known truth, and as run.json has them."""

from collections.abc import Sequence

import pytest

from looplab.experiments.balance.document import age_ms, control, control_figures, misses
from looplab.experiments.balance.plant import FALLEN_RAD, LEVEL_ZERO, level_of
from looplab.run.samples import ABSENT, ANSWERED, WAITING

S, MS = 1_000_000_000, 1_000_000
Columns = dict[str, list[int]]


def columns(**values: Sequence[float]) -> Columns:
    """Return columns of the samples, times in seconds; a message leaves each second, and is answered at once."""
    times = [float(at) for at in range(len(next(iter(values.values()))))]
    whole = {"sent_ns": times, "received_ns": times, "due_ns": times, "robot_ns": [0] * len(times), **values}
    factors = {"tilt_urad": 1e6, "level": 1, "state": 1}
    return {name: [round(one * factors.get(name, S)) for one in those] for name, those in whole.items()}


def test_figures_of_control() -> None:
    stands = control(columns(tilt_urad=[0.1, -0.1, 0.1, -0.1], level=[level_of(4.0)] * 4), range(4))
    assert stands.seconds == stands.upright_s == 3
    assert stands.angle_rms_rad == pytest.approx(0.1, abs=0.0002)
    assert stands.cost == pytest.approx(2, abs=0.03)
    # What it measures of a robot that lies is a whole milliradian.
    fallen = control(columns(tilt_urad=[0.1, 0.785, 0.785], level=[LEVEL_ZERO] * 3), range(3))
    assert (fallen.seconds, fallen.upright_s) == (2, 1)
    assert fallen.cost == pytest.approx((1 + 2 * (FALLEN_RAD / 0.1) ** 2) / 3)


def test_age_and_misses_of_known_truth() -> None:
    # Read half-way at 0, 1, 2, received 0.5 later; one that comes late and is older changes nothing.
    found = columns(sent_ns=[-0.5, 0.5, -1.3, 1.5], received_ns=[0.5, 1.5, 1.7, 2.5])
    assert age_ms(found, range(4)) == pytest.approx(1000)
    assert age_ms(found, range(1)) == 0
    states = [ANSWERED] * 5 + [WAITING] * 3 + [ANSWERED] * 8 + [WAITING] * 2
    assert misses(columns(state=states), range(len(states)), 20 * MS) == 5 - 2
    assert misses(columns(state=[WAITING] * 3), range(3), 20 * MS) == 3


def test_age_is_that_of_what_was_read_and_none_without() -> None:
    """Readings at half of O, 2 ms after each request, come after 8 ms; without any nothing is known."""
    found: Columns = {
        "tilt_urad": [0] * 3, "level": [LEVEL_ZERO] * 3, "state": [ANSWERED] * 3, "robot_ns": [4 * MS] * 3,
        "due_ns": [0, 20 * MS, 40 * MS], "sent_ns": [0, 20 * MS, 40 * MS],
        "received_ns": [8 * MS, 28 * MS, 48 * MS],
    }  # fmt: skip
    assert control_figures(found, [range(3)], 20 * MS)["age_ms"] == pytest.approx(16)
    unread = control_figures({**found, "tilt_urad": [ABSENT] * 3}, [range(3)], 20 * MS)
    assert [unread[name] for name in ("seconds", "upright_s", "angle_rms_rad", "cost", "age_ms")] == [None] * 5
