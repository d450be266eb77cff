"""What run.json and its files hold of messages: counts, what O is made of, and the cause of each loss."""

import csv
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from support.run_files import fill

from looplab.experiments.loop import LoopCell, ledger
from looplab.experiments.loop.document import COLUMNS, TRANSPORT_HEADER, of_rows, passed, transport_lines
from looplab.experiments.loop.losses import CAUSES, Losses
from looplab.experiments.loop.protocol import parse_merged
from looplab.run.accounting import summarise
from looplab.run.cells import CellResult, entry
from looplab.run.samples import ABSENT, ANSWERED, FAILED, LATE, NOT_SENT, WAITING, SampleStore
from looplab.spec.brokers import BROKERS

MS = 1_000_000


def enter(store: SampleStore, row: int, total_ns: int, robot_ns: int = 0) -> None:
    """One answered message, due at its row's millisecond."""
    due_ns = (row + 1) * MS
    more = {"received_ns": due_ns + total_ns, "robot_ns": robot_ns, "state": ANSWERED}
    fill(store, range(row, row + 1), due_ns=due_ns, sent_ns=due_ns, **more)


def document(store: SampleStore, rows: range) -> dict[str, Any]:
    cell = LoopCell.keyed(20, 0)
    return entry(CellResult(cell, of_rows(store, rows)), store, rows)


def test_transport_file_and_summary_hold_the_same_rows() -> None:
    store = SampleStore(2, more=COLUMNS)
    for row in range(2):
        enter(store, row, 5 * MS, 4 * MS)
        store["wire_received_ns"][row], store["wire_robot_ns"][row] = 10 * MS, 4 * MS
    store["wire_sent_ns"][0] = 5 * MS
    store["wait_ns"][0] = 1_500_000
    lines = list(transport_lines(store, range(2)))
    assert lines == ["0,5000.000,4000.000,1000.000,1500.000,,,,,"]
    assert document(store, range(2))["transport_O_us"]["n"] == len(lines)


def test_r_free_is_that_of_requests_that_did_not_queue() -> None:
    store = SampleStore(3, more=COLUMNS)
    for row, wait_ns in enumerate((0, 4 * MS, -1)):
        enter(store, row, 12 * MS, 8 * MS)
        store["wait_ns"][row] = wait_ns
    found = document(store, range(3))
    assert found["R_us"]["n"] == 3
    assert (found["service_R_us"]["n"], found["service_R_us"]["min"], found["service_R_us"]["max"]) == (1, 8000, 8000)
    assert found["waited"] == 1


def test_the_runs_own_messages_are_those_that_the_broker_counts() -> None:
    """Three requests, two answers at QoS 0; mosquitto before 1.6.13 and 2.0.4 leaves QoS 2 out of its count."""
    store = SampleStore(4, more=COLUMNS)
    answer = {"received_ns": [2 * MS, ABSENT, 2 * MS], "state": [ANSWERED, WAITING, ANSWERED]}
    fill(store, range(3), due_ns=MS, sent_ns=MS, **answer)
    for version, of_qos_2 in (("1.6.10", 2), ("1.6.13", 5), ("2.0.3", 2), ("2.0.4", 5), ("2.1", 5), ("", 5)):
        counted = BROKERS["mosquitto"].counted_qos(version)
        own = [passed(store, range(4), requests=qos in counted, answers=0 in counted) for qos in (1, 2)]
        assert own == [5, of_qos_2], version


SENT_NS = 5_000_000_000
# Send path, network (both ways), bridge's wake-up, R, bridge's send path and wake-up of 50 messages in ns.
SEND, NETWORK, BRIDGE_WAKE, ROBOT, BRIDGE_SEND, WAKE = np.random.default_rng(12).integers(10**7, size=(6, 50))


@pytest.fixture
def store() -> SampleStore:
    found, arrived = SampleStore(50, more=COLUMNS), SENT_NS + SEND + NETWORK + BRIDGE_WAKE + ROBOT + BRIDGE_SEND
    fill(
        found, range(50), sent_ns=SENT_NS, wire_sent_ns=SENT_NS, left_ns=SENT_NS + SEND, arrived_ns=arrived,
        wire_received_ns=arrived + WAKE, received_ns=arrived + WAKE, robot_ns=ROBOT, wire_robot_ns=ROBOT,
        bridge_wake_up_ns=BRIDGE_WAKE, bridge_send_path_ns=BRIDGE_SEND, state=ANSWERED,
    )  # fmt: skip
    return found


def test_each_part_is_the_one_that_was_made(store: SampleStore) -> None:
    """To the nanosecond, each by itself: a sum alone would hold with any remainder."""
    for row, parts in enumerate(zip(SEND, WAKE, BRIDGE_WAKE, BRIDGE_SEND, NETWORK, strict=True)):
        assert ledger.of_row(store, row) == parts
    without_robot = SEND + NETWORK + BRIDGE_WAKE + BRIDGE_SEND + WAKE
    assert ledger.summary(store, range(50))["O"] == summarise(without_robot.tolist())


@pytest.mark.parametrize("lacking", ["left_ns", "arrived_ns", "bridge_wake_up_ns", "bridge_send_path_ns"])
def test_an_unknown_part_is_empty_and_so_is_the_rest(store: SampleStore, lacking: str) -> None:
    store[lacking][0] = ABSENT
    first, second = csv.DictReader([TRANSPORT_HEADER, *transport_lines(store, range(2))])
    empty = [name for name in ledger.NAMES if not first[f"{name}_us"]]
    assert len(empty) == 2
    assert empty[1] == "network"
    assert all(second[f"{name}_us"] for name in ledger.NAMES)
    counts = {name: part["n"] for name, part in ledger.summary(store, range(50)).items()}
    assert counts == {**dict.fromkeys((*ledger.NAMES, "O", "transport_O"), 49), "others_O": 1}


def test_parts_and_transport_are_those_of_one_o(store: SampleStore) -> None:
    """Six of 50 messages lack a stamp and took 134 ms: they are in none of the figures that are compared."""
    fill(store, range(6), arrived_ns=ABSENT, received_ns=SENT_NS + 134_000_000 + ROBOT[:6])
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


@pytest.mark.parametrize("seed", range(20))
def test_causes_add_up_to_what_was_lost(seed: int) -> None:
    dice = random.Random(seed)
    store = SampleStore(200)
    for row in range(200):
        store["state"][row] = state = dice.choice((NOT_SENT, WAITING, ANSWERED, LATE, FAILED))
        if state != NOT_SENT:
            store["sent_ns"][row] = row * MS
        if state not in (NOT_SENT, WAITING):
            store["received_ns"][row] = (row + dice.randrange(1, 50)) * MS
    merged, expired = ({dice.randrange(200) for _ in range(40)} for _ in range(2))
    returns_ns = sorted(dice.randrange(200) * MS for _ in range(3))
    found = Losses(store, range(200), merged, expired, returns_ns).count(range(200))
    assert sum(found.values()) == store["state"].tolist().count(WAITING)


def test_losses_are_of_a_connection_between_its_last_answer_and_its_return() -> None:
    """However late the broker noticed that it was gone."""

    def causes(lost: Sequence[int], *returns_ms: int) -> dict[str, int]:
        """Message k of 100 leaves at 10 k ms and is answered 5 ms later unless it is lost."""
        store, sent_ns = SampleStore(100), 10 * MS * np.arange(100)
        answered = ~np.isin(np.arange(100), lost)
        received_ns = np.where(answered, sent_ns + 5 * MS, ABSENT)
        fill(store, range(100), sent_ns=sent_ns, received_ns=received_ns, state=np.where(answered, ANSWERED, WAITING))
        found = Losses(store, range(100), [], [], [ms * MS for ms in returns_ms]).count(range(100))
        assert list(found) == list(CAUSES)
        return {cause: number for cause, number in found.items() if number}

    assert causes([10, 20, 21], 215) == {"unknown": 1, "disconnected": 2}
    assert causes(range(40, 60), 455) == {"disconnected": 6, "unknown": 14}
    # Two returns without an answer between them.
    assert causes(range(40, 60), 455, 598) == {"disconnected": 20}


@pytest.mark.parametrize("payload", [b"", b"ab12", b"ab12 ", b"ab12 x", b"ab12 1,2", b"ab12 1234567890", b"\xff 1"])
def test_what_is_no_report_of_merged_requests(payload: bytes) -> None:
    assert parse_merged(payload) is None
