"""What O is made of: exact sums, and nothing where a part is unknown."""

import random

import pytest

from looplab.experiments.loop import ledger
from looplab.experiments.loop.document import COLUMNS, TRANSPORT_HEADER, transport_lines
from looplab.run.samples import ABSENT, ANSWERED, SampleStore

SENT_NS = 5_000_000_000
STAMPED = {"unstamped": ""}
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
def store() -> SampleStore:
    """50 messages whose parts are drawn at random."""
    dice, found = random.Random(12), SampleStore(50, more=COLUMNS)
    for row in range(50):
        put(found, row, tuple(dice.randrange(10**7) for _ in range(6)))  # type: ignore[arg-type]
    return found


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
    assert [part["n"] for part in ledger.summary(store, range(50)).values()] == [49] * 5
    (gap,) = ledger.gaps(store, range(50), "", STAMPED)
    assert gap.startswith("1 of 50 answered messages ")


def test_parts_that_cannot_be_are_no_parts(store: SampleStore) -> None:
    """A stamp before its message was sent, and parts that are longer than O."""
    store["left_ns"][0] = SENT_NS - 1
    store["bridge_wake_up_ns"][1] = 10**12
    first, second = (ledger.of_row(store, row) for row in range(2))
    assert (first.send_path, first.network, second.network) == (ABSENT, ABSENT, ABSENT)
    assert second.send_path != ABSENT
