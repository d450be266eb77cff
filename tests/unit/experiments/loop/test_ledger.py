"""What O is made of: exact sums, and nothing where a part is unknown."""

import random

import pytest

from looplab.experiments.loop import ledger
from looplab.experiments.loop.document import COLUMNS, TRANSPORT_HEADER, transport_lines
from looplab.run.accounting import summarise
from looplab.run.samples import ABSENT, ANSWERED, SampleStore

SENT_NS = 5_000_000_000
Row = tuple[int, int, int, int, int, int]


def put(store: SampleStore, row: int, parts: Row) -> None:
    """One answered message: send path, network (both ways), bridge's wake-up, R, bridge's send path, wake-up in ns."""
    send, network, bridge_wake, robot, bridge_send, wake = parts
    arrived = SENT_NS + send + network + bridge_wake + robot + bridge_send
    values = {
        "sent_ns": SENT_NS, "wire_sent_ns": SENT_NS, "left_ns": SENT_NS + send, "arrived_ns": arrived,
        "wire_received_ns": arrived + wake, "received_ns": arrived + wake, "robot_ns": robot, "wire_robot_ns": robot,
        "bridge_wake_up_ns": bridge_wake, "bridge_send_path_ns": bridge_send, "state": ANSWERED,
    }  # fmt: skip
    for name, value in values.items():
        store[name][row] = value


@pytest.fixture
def truth() -> list[Row]:
    """The parts of 50 messages, drawn at random."""
    dice = random.Random(12)
    return [tuple(dice.randrange(10**7) for _ in range(6)) for _ in range(50)]  # type: ignore[misc]


@pytest.fixture
def store(truth: list[Row]) -> SampleStore:
    found = SampleStore(50, more=COLUMNS)
    for row, parts in enumerate(truth):
        put(found, row, parts)
    return found


def test_each_part_is_the_one_that_was_made(store: SampleStore, truth: list[Row]) -> None:
    """To the nanosecond, each by itself: a sum alone would hold with any remainder."""
    for row, (send, network, bridge_wake, _robot, bridge_send, wake) in enumerate(truth):
        assert ledger.of_row(store, row) == (send, wake, bridge_wake, bridge_send, network)
    without_robot = [sum(parts) - parts[3] for parts in truth]
    assert ledger.summary(store, range(50))["O"] == summarise(without_robot)


def read(line: str) -> dict[str, int | None]:
    """Return the fields of a line of transport.csv in ns."""
    fields = dict(zip(TRANSPORT_HEADER.split(","), line.split(","), strict=True))
    return {name: int(text.replace(".", "")) if text else None for name, text in fields.items()}


@pytest.mark.parametrize("lacking", ["left_ns", "arrived_ns", "bridge_wake_up_ns", "bridge_send_path_ns"])
def test_an_unknown_part_is_empty_and_so_is_the_rest(store: SampleStore, lacking: str) -> None:
    store[lacking][0] = ABSENT
    first, second = (read(line) for line in transport_lines(store, range(2)))
    empty = [name for name in ledger.NAMES if first[f"{name}_us"] is None]
    assert len(empty) == 2
    assert empty[1] == "network"
    assert None not in (second[f"{name}_us"] for name in ledger.NAMES)
    counts = {name: part["n"] for name, part in ledger.summary(store, range(50)).items()}
    assert counts == {**dict.fromkeys((*ledger.NAMES, "O", "transport_O"), 49), "others_O": 1}


def test_parts_and_transport_are_those_of_one_o(store: SampleStore) -> None:
    """Six of 50 messages lack a stamp and took 134 ms: they are in none of the figures that are compared."""
    for row in range(6):
        store["arrived_ns"][row] = ABSENT
        store["received_ns"][row] = SENT_NS + 134_000_000 + store["robot_ns"][row]
    figures = ledger.summary(store, range(50))
    assert sum(figures[name]["avg"] for name in ledger.NAMES) == pytest.approx(figures["O"]["avg"], abs=0.01)
    assert figures["others_O"] == {**figures["others_O"], "n": 6, "avg": 134_000.0}
    # What the program itself adds is a difference of the same messages: 0 in these.
    assert figures["O"]["avg"] == figures["transport_O"]["avg"]
    store["wire_robot_ns"][10] = ABSENT
    assert [part["n"] for part in ledger.summary(store, range(50)).values()] == [*[43] * 7, 7]


def test_parts_that_cannot_be_are_no_parts(store: SampleStore) -> None:
    """A stamp before its message was sent, and parts that are longer than O."""
    store["left_ns"][0] = SENT_NS - 1
    store["bridge_wake_up_ns"][1] = 10**12
    first, second = (ledger.of_row(store, row) for row in range(2))
    assert (first[0], first[-1], second[-1]) == (ABSENT, ABSENT, ABSENT)
    assert second[0] != ABSENT
    assert ledger.negative(store, range(50)) == 1
