"""Cells of the loop: every message counted once, no latency left out, lines as their header says."""

from typing import Any

from looplab.experiments.loop import LoopCell
from looplab.experiments.loop.document import COLUMNS, of_rows, passed, transport_lines
from looplab.experiments.loop.parameters import LoopParameters
from looplab.run.cells import CellResult, entry
from looplab.run.document import samples_file
from looplab.run.samples import ANSWERED, FAILED, LATE, WAITING, SampleStore
from looplab.spec.brokers import BROKERS

MS = 1_000_000


def parameters(**settings: str) -> LoopParameters:
    return LoopParameters.read({"SCENARIO": "s", "MESSAGES": "4", "REPETITIONS": "2", "INTERVALS_MS": "20", **settings})


def put(store: SampleStore, row: int, state: int, total_ns: int = 0, robot_ns: int = 0, lateness_ns: int = 0) -> None:
    """One message due at its row's millisecond."""
    due = (row + 1) * MS
    store["due_ns"][row], store["sent_ns"][row], store["state"][row] = due, due + lateness_ns, state
    if state in (ANSWERED, LATE, FAILED):
        store["received_ns"][row] = due + lateness_ns + total_ns
        store["robot_ns"][row] = robot_ns


def document(store: SampleStore, rows: range) -> dict[str, Any]:
    cell = LoopCell.keyed(20, 0)
    return entry(CellResult(cell, of_rows(store, rows)), store, rows)


def test_transport_file_and_summary_hold_the_same_rows() -> None:
    store = SampleStore(2, more=COLUMNS)
    for row in range(2):
        put(store, row, ANSWERED, 5 * MS, 4 * MS)
        store["wire_received_ns"][row], store["wire_robot_ns"][row] = 10 * MS, 4 * MS
    store["wire_sent_ns"][0] = 5 * MS
    store["wait_ns"][0] = 1_500_000
    lines = list(transport_lines(store, range(2)))
    assert lines == ["0,5000.000,4000.000,1000.000,1500.000,,,,,"]
    assert document(store, range(2))["transport_O_us"]["n"] == len(lines)


def test_r_free_is_that_of_requests_that_did_not_queue() -> None:
    store = SampleStore(3, more=COLUMNS)
    for row, wait_ns in enumerate((0, 4 * MS, -1)):
        put(store, row, ANSWERED, 12 * MS, 8 * MS)
        store["wait_ns"][row] = wait_ns
    found = document(store, range(3))
    assert found["R_us"]["n"] == 3
    assert (found["service_R_us"]["n"], found["service_R_us"]["min"], found["service_R_us"]["max"]) == (1, 8000, 8000)
    assert found["waited"] == 1


def test_the_runs_own_messages_are_those_that_the_broker_counts() -> None:
    """Three requests, two answers at QoS 0; mosquitto before 1.6.13 and 2.0.4 leaves QoS 2 out of its count."""
    store = SampleStore(4, more=COLUMNS)
    for row, state in enumerate((ANSWERED, WAITING, ANSWERED)):
        put(store, row, state, 5 * MS)
    for version, of_qos_2 in (("1.6.10", 2), ("1.6.13", 5), ("2.0.3", 2), ("2.0.4", 5), ("2.1", 5), ("", 5)):
        counted = BROKERS["mosquitto"].counted_qos(version)
        own = [passed(store, range(4), requests=qos in counted, answers=0 in counted) for qos in (1, 2)]
        assert own == [5, of_qos_2], version


def test_lines_have_the_columns_of_their_header() -> None:
    p = parameters(INTERVALS_MS="20,2.5")
    store = SampleStore(p.samples, more=COLUMNS)
    put(store, 0, ANSWERED, 5 * MS, 4_280_123, 1500)
    put(store, 5, WAITING)
    put(store, 8, FAILED, 250 * MS, 249 * MS)
    put(store, 9, LATE, 2000 * MS, 4 * MS)
    store["intended_ns"][0], store["intended_ns"][5] = MS, 3 * MS
    samples = samples_file(LoopCell, p)
    lines = list(samples.lines(store, range(p.samples)))
    assert lines == [
        f"20,0,0,0,{MS},{MS + 1500},{6 * MS + 1500},5000.000,4280.123,719.877,answered,{MS}",
        f"20,0,1,5,{6 * MS},{6 * MS},,,,,lost,{3 * MS}",
        f"2.5,0,0,8,{9 * MS},{9 * MS},{259 * MS},250000.000,249000.000,1000.000,robot_error,",
        f"2.5,0,0,9,{10 * MS},{10 * MS},{2010 * MS},2000000.000,4000.000,1996000.000,late,",
    ]
    assert {line.count(",") for line in lines} == {samples.header.count(",")}
