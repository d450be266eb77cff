"""Stored runs that drive plant and controller: delays, losses and figures of known truth."""

from pathlib import Path

import pytest
from support.tables import rows

from looplab.experiments.balance import figures, replay
from looplab.experiments.balance.controller import control_figures
from looplab.experiments.balance.plant import FALLEN_RAD, LEVEL_ZERO, level_of
from looplab.experiments.balance.replay import ReplayedMessage, in_time, joined
from looplab.run.samples import ABSENT, ANSWERED

CELL = 20.0, 0


def trace(total_s: float = 0.004, count: int = 200, lost: range = range(0)) -> tuple[ReplayedMessage, ...]:
    def message(at: int) -> ReplayedMessage:
        sent_s = at * 0.02
        return (
            ReplayedMessage(sent_s, None, None)
            if at in lost
            else ReplayedMessage(sent_s, sent_s + total_s / 2, sent_s + total_s)
        )

    return tuple(message(at) for at in range(count))


def figures_of(messages: tuple[ReplayedMessage, ...]) -> replay.Replayed:
    found, _frames = replay.replayed(*CELL, messages)
    return found


def test_a_run_in_time_stands_for_the_minute() -> None:
    found = figures_of(trace())
    assert found.upright_s == pytest.approx(60, abs=0.1)
    assert found.angle_rms_rad < 0.035
    assert found.misses == found.lost == 0
    assert found.age_ms == pytest.approx(2 + 10)
    assert found.age_peak_ms == pytest.approx(22)


def test_later_answers_cost_more_and_leave_less_extra_delay() -> None:
    one, two, three = (figures_of(trace(total_s)) for total_s in (0.004, 0.03, 0.05))
    assert one.cost < two.cost < three.cost
    assert one.extra_ms is not None
    assert two.extra_ms is not None
    assert one.extra_ms - two.extra_ms == pytest.approx(20, abs=2)
    assert (two.misses, three.misses) == (10, 10)


def test_a_pause_fells_the_robot_and_a_short_one_does_not() -> None:
    assert not replay.replay(trace(lost=range(50, 52))).fallen
    fell = figures_of(trace(lost=range(50, 80)))
    assert 1 < fell.upright_s < 2
    assert fell.extra_ms is None
    assert (fell.lost, fell.misses) == (30, 10)


def test_repetitions_are_joined_an_interval_apart() -> None:
    one = [ReplayedMessage(5.0, 5.002, 5.004), ReplayedMessage(5.02, None, None)]
    whole = joined([one, one], 0.02, 0.11)
    assert len(joined([one, one], 0.02)) == 4
    assert [message.sent_s for message in whole] == pytest.approx([0, 0.02, 0.04, 0.06, 0.08, 0.1])
    assert whole[2].received_s == pytest.approx(0.044)
    assert whole[3].at_robot_s is None
    assert in_time(one) == [True]


def test_a_stored_run_is_read_with_losses_and_late_answers(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"cells": [{"interval_ms": 20, "qos": 0}]}')
    (tmp_path / "samples.csv").write_text(
        "interval_ms,qos,repetition,sequence,sent_ns,received_ns,overhead_us,outcome\n"
        "20,0,0,0,1000000000,1005000000,1000.0,answered\n"
        "20,0,0,1,1020000000,,,lost\n"
        "20,0,0,2,1040000000,1140000000,90000.0,late\n"
    )
    ((cell, read),) = replay.read(tmp_path)
    assert (cell["interval_ms"], cell["qos"]) == CELL
    assert [one.received_s for one in read] == [pytest.approx(0.005), None, pytest.approx(0.14)]
    assert read[2].at_robot_s == pytest.approx(0.04 + 0.045 + replay.BYTE_S)


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
    assert figures.control([], [], []) == (0, 0, 0, 0)


def test_age_and_misses_of_known_truth() -> None:
    # Read at 0, 1, 2, received 0.5 later; one that comes late and is older changes nothing.
    mean, peak = figures.age([(0, 0.5), (1, 1.5), (0.2, 1.7), (2, 2.5)])
    assert (mean, peak) == (pytest.approx(1.0), pytest.approx(1.5))
    assert figures.age([(0, 0.5)]) == (0, 0)
    assert figures.misses([True] * 5 + [False] * 3 + [True] * 8 + [False] * 2) == 5 - 2
    assert figures.misses([False] * 3) == 3
    assert figures.misses([]) == 0


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


def test_the_replay_is_within_5_percent_of_the_live_robot() -> None:
    """Two cells of live runs: firmware, simulated board and plant.c; at 100 ms it fell."""
    folder = Path(__file__).with_name("live_run")
    samples = rows(folder / "samples.csv")
    for cell, trace in replay.read(folder):
        own = [row for row in samples if float(row["interval_ms"]) == cell["interval_ms"]]
        tilts_rad = [int(row["tilt_mrad"]) / 1000 for row in own]
        live = figures.control(
            [int(row["sent_ns"]) / 1e9 for row in own], tilts_rad, [int(row["level"]) for row in own]
        )
        found = figures.control(*replay.replay(trace)[:3])
        assert found.upright_s == pytest.approx(live.upright_s, rel=0.05)
        assert found.cost == pytest.approx(live.cost, rel=0.05)
        if cell["interval_ms"] == 20:
            assert live.upright_s == pytest.approx(18, abs=0.1)
            assert found.angle_rms_rad == pytest.approx(live.angle_rms_rad, rel=0.05)
        else:
            assert live.upright_s < 1
