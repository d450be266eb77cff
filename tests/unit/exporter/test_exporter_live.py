"""The live files of a controller, followed while they change in every order they can."""

import os
from pathlib import Path

import pytest
from support.run_files import MS, Writer, parameters, publish_state

from looplab.experiments.loop import LoopCell
from looplab.experiments.loop.live import Live
from looplab.experiments.registry import EXPERIMENTS
from looplab.exporter.live import CHUNK_ROWS, SILENCE_NS, LiveFolder, LiveRun
from looplab.metrics.cells import labels_of
from looplab.run.samples import FAILED, LATE


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    return Writer(tmp_path)


def live_run(path: Path, **changes: int) -> LiveRun:
    asked = parameters(**changes)
    cells = [LoopCell.keyed(ms, qos) for qos in asked["qos"] for ms in asked["intervals_ms"]]
    state = {"run_id": "r", "parameters": asked, "longest_gap_ms": 20}
    return LiveRun(path, state, [Live(cell, labels_of(asked, cell)) for cell in cells])


@pytest.fixture
def run(tmp_path: Path) -> LiveRun:
    return live_run(tmp_path / "samples.bin")


def samples(text: str, name: str, **labels: str) -> list[float]:
    wanted = [f'{key}="{value}"' for key, value in labels.items()]
    lines = [line for line in text.splitlines() if line.startswith(name + "{") and all(w in line for w in wanted)]
    return [float(line.rpartition(" ")[2]) for line in lines]


def everything(run: LiveRun) -> str:
    return "".join(run.texts().values())


def test_rows_are_counted_once_whatever_the_order_they_settle_in(writer: Writer, run: LiveRun) -> None:
    for row in range(5):
        writer.send(row)
    writer.answer(3)
    run.advance()
    assert samples(everything(run), "loop_messages_total", outcome="answered", interval_ms="20") == [1]
    assert samples(everything(run), "loop_messages_sent_total", interval_ms="20") == [5]
    writer.answer(0, LATE, total_ms=1500)
    writer.answer(4, FAILED)
    for _ in range(3):
        run.advance()
    writer.answer(1)
    writer.answer(2)
    run.advance()
    text = everything(run)
    assert samples(text, "loop_messages_total", outcome="answered", interval_ms="20") == [3]
    assert samples(text, "loop_messages_total", outcome="late", interval_ms="20") == [1]
    assert samples(text, "loop_messages_total", outcome="robot_error", interval_ms="20") == [1]
    # A late answer has a latency, an error of the robot has none.
    assert samples(text, "loop_latency_seconds_count", metric="O", interval_ms="20") == [4]
    assert samples(text, "loop_latency_seconds_sum", metric="O", interval_ms="20") == [pytest.approx(1.499)]


def test_a_message_is_lost_after_two_deadlines_and_not_before(writer: Writer, run: LiveRun) -> None:
    writer.send(0, ago_ms=2500)
    writer.send(1, ago_ms=1500)
    run.advance()
    assert samples(everything(run), "loop_messages_total", outcome="lost") == [1]


def test_cells_are_told_apart_and_the_current_one_is_marked(writer: Writer, run: LiveRun) -> None:
    for row in range(25):
        writer.send(row)
        writer.answer(row)
    run.advance()
    text = everything(run)
    assert samples(text, "loop_messages_sent_total", interval_ms="20") == [20]
    assert samples(text, "loop_messages_sent_total", interval_ms="10") == [5]
    assert samples(text, "loop_cell_current", interval_ms="20") == [0]
    assert samples(text, "loop_cell_current", interval_ms="10") == [1]


def test_exporter_started_in_the_middle_takes_in_all_chunks(tmp_path: Path) -> None:
    rows = 3 * CHUNK_ROWS + 2
    writer = Writer(tmp_path, rows)
    for row in range(rows):
        writer.send(row)
        writer.answer(row)
    run = live_run(tmp_path / "samples.bin", MESSAGES=rows // 2, REPETITIONS=1)
    run.advance()
    assert samples(everything(run), "loop_messages_total", outcome="answered") == [rows / 2, rows / 2]


def test_a_store_truncated_under_its_reader_harms_nothing(tmp_path: Path, writer: Writer, run: LiveRun) -> None:
    writer.send(0)
    run.advance()
    for size in (0, 8, 16, 4096, 5000):
        os.truncate(tmp_path / "samples.bin", size)
        run.advance()
    (tmp_path / "samples.bin").unlink()
    run.advance()
    assert samples(everything(run), "loop_messages_sent_total") == [1]


def test_another_runs_store_is_left_alone(tmp_path: Path, run: LiveRun) -> None:
    writer = Writer(tmp_path, rows=12)
    writer.send(0)
    run.advance()
    assert samples(everything(run), "loop_messages_sent_total") == []


def test_from_waiting_to_running_to_stored(tmp_path: Path, writer: Writer) -> None:
    folder = LiveFolder(tmp_path, EXPERIMENTS)
    assert folder.run(frozenset()) is None
    publish_state(tmp_path, "running")
    writer.send(0)
    run = folder.run(frozenset())
    assert run is not None
    assert run.active
    publish_state(tmp_path, "finished")
    run = folder.run(frozenset())
    assert run is not None, "shown until the stored run takes over"
    assert not run.active
    assert folder.run(frozenset({run.run_id})) is None


def test_interrupted_run_is_dropped_and_the_next_one_taken_up(tmp_path: Path) -> None:
    folder = LiveFolder(tmp_path, EXPERIMENTS)
    Writer(tmp_path)
    publish_state(tmp_path, "running")
    assert folder.run(frozenset()) is not None
    publish_state(tmp_path, "interrupted")
    assert folder.run(frozenset()) is None
    publish_state(tmp_path, "running", run_id="20260102T000000Z-scenario1")
    found = folder.run(frozenset())
    assert found is not None
    assert found.run_id == "20260102T000000Z-scenario1"


def test_state_that_is_no_state_is_ignored(tmp_path: Path) -> None:
    folder = LiveFolder(tmp_path, EXPERIMENTS)
    for text in ("", "{", "[]", '{"state": "running"}', '{"state": "running", "run_id": "x", "parameters": 5}'):
        (tmp_path / "state.json").write_text(text)
        assert folder.run(frozenset()) is None


def test_a_run_whose_controller_was_killed_does_not_stay_active(writer: Writer, run: LiveRun) -> None:
    writer.send(0, ago_ms=SILENCE_NS // MS - 5000)
    run.advance()
    assert run.active
    writer.send(1, ago_ms=SILENCE_NS // MS + 100)
    run.advance()
    assert not run.active
