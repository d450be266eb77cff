"""Parameters of twin: cells, what each write mode does, where brokers are, and what is refused."""

import pytest
from support.places import ROOT

from looplab.experiments.twin.message import MOST_BYTES, TwinMessage, parse, payload
from looplab.experiments.twin.parameters import PARAMETERS, TwinParameters
from looplab.lab.run_options import variables


@pytest.mark.parametrize(
    ("scenario", "own", "cells"),
    [
        ("twin", {}, 3),
        ("twin-brokers", {"BROKERS": "1,2,4", "PLACEMENTS": "central,distributed"}, 5),
        ("twin-limit", {"WRITE_MODE": "prototype,row,copy"}, 3),
    ],
)
def test_a_quick_run_ends_within_three_minutes(scenario: str, own: dict[str, str], cells: int) -> None:
    """`own` is what params.env sets beside."""
    quick = variables(ROOT, [scenario], {}, quick=True)
    p = TwinParameters.read({"SCENARIO": scenario, **own, **quick})
    assert len(p.cells) == cells
    assert p.total_s < 170
    # Where several scenarios are run, the intervals are those of the experiment.
    several = variables(ROOT, ["twin", "twin-brokers"], {}, quick=True)
    assert several["INTERVALS_MS"] == PARAMETERS.quick_preset()["INTERVALS_MS"]


def test_the_published_way_of_storing_is_the_prototypes() -> None:
    assert TwinParameters.read({"WRITE_MODE": "published,prototype,copy"}).write_modes == ("prototype", "copy")


def test_iterations_follow_each_other_one_broker_is_one_cell() -> None:
    p = TwinParameters.read(
        {"BROKERS": "1 2", "PLACEMENTS": "central distributed", "INTERVALS_MS": "10", "REPETITIONS": "2"}
    )
    ways = [(cell.repetition, cell.brokers, cell.placement) for cell in p.published_cells]
    once = [(1, "single"), (2, "central"), (2, "distributed")]
    assert ways == [(0, *way) for way in once] + [(1, *way) for way in once]
    assert p.hosts(p.published_cells[1]) == [("central-2", 1883), ("central-2", 1884)]
    assert p.hosts(p.published_cells[2]) == [("broker-1", 1883), ("broker-2", 1883)]


def test_each_iteration_has_all_cells_at_random() -> None:
    def order(seed: int) -> list[tuple[int, float]]:
        p = TwinParameters.read({"REPETITIONS": "2", "ORDER_SEED": str(seed)})
        return [(cell.repetition, cell.interval_ms) for cell in p.cells]

    assert order(1) == order(1) != order(2)
    assert [again for again, _ in order(3)] == [0] * 7 + [1] * 7
    assert sorted(ms for _, ms in order(3)[:7]) == [10, 20, 40, 50, 67, 80, 100]
    drawn = {TwinParameters.read({}).order_seed for _ in range(3)}
    assert len(drawn - {0}) == 3


def test_messages_are_spread_over_devices_then_brokers() -> None:
    p = TwinParameters.read({"BROKERS": "2", "DEVICES": "3", "MESSAGES": "12", "INTERVALS_MS": "10"})
    rows = p.rows(0)
    assert [p.device_of(row) for row in rows] == [1, 2, 3] * 4
    assert [p.broker_of(row) for row in rows] == [1, 1, 1, 2, 2, 2] * 2


def test_a_payload_says_which_message_it_is() -> None:
    token = b"0123abcd"
    data = payload(token, 12, 345, 6789, 64)
    assert len(data) == 64
    assert parse(token, data) == TwinMessage(12, 345, 6789)
    assert len(payload(token, 9999, 999_999_999, 1 << 62, 20)) <= 64
    for wrong in (data[:-1] + b"x", data[1:], b"", b"\0" * 64, data.replace(b"12,", b"12345,"), bytes(MOST_BYTES)):
        assert parse(token, wrong) is None
    assert parse(b"deadbeef", data) is None
