"""The exporter: live files that change in every order they can, broker, processes."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter_ns

import pytest
from support.mqtt_packets import publish
from support.nonsense_broker import WELCOME, NonsenseBroker, Visit
from support.parts import HOST
from support.run_files import MS, Writer, parameters, publish_state
from support.waiting import until

from looplab.experiments.loop import LoopCell
from looplab.experiments.loop.live import LiveLoopCell
from looplab.experiments.loop.protocol import TOPIC_BRIDGE_INFO
from looplab.experiments.registry import EXPERIMENTS
from looplab.exporter import broker as exporter_broker
from looplab.exporter import live
from looplab.exporter.broker import BrokerWatch
from looplab.exporter.live import CHUNK_ROWS, SILENCE_NS, LiveFolder, LiveRun, add_cells
from looplab.exporter.machine import HostWatch
from looplab.exporter.server import broker_topics, process_names
from looplab.metrics.page import Page
from looplab.run.samples import FAILED, LATE
from looplab.spec.brokers import BROKERS, DEFAULT


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    return Writer(tmp_path)


def live_run(path: Path, **changes: int) -> LiveRun:
    asked = parameters(**changes)
    cells = [LoopCell.keyed(ms, qos) for qos in asked["qos"] for ms in asked["intervals_ms"]]
    state = {"run_id": "r", "parameters": asked, "longest_gap_ms": 20}
    return LiveRun(path, state, [LiveLoopCell(cell, {"run_id": "r"}) for cell in cells])


@pytest.fixture
def run(tmp_path: Path) -> LiveRun:
    return live_run(tmp_path / "samples.bin")


def samples(run: LiveRun, name: str, **labels: str) -> list[float]:
    page = Page()
    add_cells(page, run.cells, 0)
    return values(page, name, **labels)


def values(page: Page, name: str, **labels: str) -> list[float]:
    found = [one for family in page.collect() for one in family.samples if one.name == name]
    return [one.value for one in found if labels.items() <= one.labels.items()]


def test_rows_are_counted_once_whatever_the_order_they_settle_in(writer: Writer, run: LiveRun) -> None:
    for row in range(5):
        writer.send(row)
    writer.answer(3)
    run.advance()
    assert samples(run, "lab_messages_total", outcome="answered", cell="20 ms, QoS 0") == [1]
    assert samples(run, "lab_messages_sent_total", cell="20 ms, QoS 0") == [5]
    writer.answer(0, LATE, total_ms=1500)
    writer.answer(4, FAILED)
    for _ in range(3):
        run.advance()
    writer.answer(1)
    writer.answer(2)
    run.advance()
    for outcome, count in (("answered", 3), ("late", 1), ("robot_error", 1)):
        assert samples(run, "lab_messages_total", outcome=outcome, cell="20 ms, QoS 0") == [count]
    # A late answer has a latency, an error of the robot has none.
    assert samples(run, "lab_latency_seconds_count", metric="O", cell="20 ms, QoS 0") == [4]
    assert samples(run, "lab_latency_seconds_sum", metric="O", cell="20 ms, QoS 0") == [pytest.approx(1.499)]


def test_a_message_is_lost_after_two_deadlines_and_not_before(writer: Writer, run: LiveRun) -> None:
    writer.send(0, ago_ms=2500)
    writer.send(1, ago_ms=1500)
    run.advance()
    assert samples(run, "lab_messages_total", outcome="lost") == [1]


def test_exporter_started_in_the_middle_takes_in_all_chunks(tmp_path: Path) -> None:
    rows = 3 * CHUNK_ROWS + 2
    writer = Writer(tmp_path, rows)
    for row in range(rows):
        writer.send(row)
        writer.answer(row)
    run = live_run(tmp_path / "samples.bin", MESSAGES=rows // 2, REPETITIONS=1)
    run.advance()
    assert samples(run, "lab_messages_total", outcome="answered") == [rows / 2, rows / 2]


def test_a_store_truncated_under_its_reader_harms_nothing(tmp_path: Path, writer: Writer, run: LiveRun) -> None:
    writer.send(0)
    run.advance()
    for size in (0, 8, 16, 4096, 5000):
        os.truncate(tmp_path / "samples.bin", size)
        run.advance()
    (tmp_path / "samples.bin").unlink()
    run.advance()
    assert samples(run, "lab_messages_sent_total") == [1]


def test_another_runs_store_is_left_alone(tmp_path: Path, run: LiveRun) -> None:
    writer = Writer(tmp_path, rows=12)
    writer.send(0)
    run.advance()
    assert samples(run, "lab_messages_sent_total") == []


def seen(folder: LiveFolder, name: str = "lab_run_active", *, changing: bool = False, **labels: str) -> list[float]:
    page = Page()
    folder.add_to(page, changing=changing)
    return values(page, name, **labels)


def test_a_finished_run_is_shown_until_the_next_begins(
    tmp_path: Path, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, sent = LiveFolder(tmp_path, EXPERIMENTS), "lab_messages_sent_total"
    assert seen(folder) == []
    publish_state(tmp_path, "running")
    writer.send(0)
    first = {"scenario": "scenario1", "run_id": "20260101T000000Z-scenario1", "fidelity": "thesis"}
    assert (seen(folder, **first), seen(folder, sent, changing=True)) == ([1], [1])
    publish_state(tmp_path, "finished", valid=False)
    assert (seen(folder, **first), seen(folder, "lab_run_valid", **first)) == ([0], [0])
    assert seen(folder, sent, changing=True) == [1], "a last scrape has the end"
    monkeypatch.setattr(live, "SCRAPED_NS", 0)
    assert seen(folder, changing=True) == [], "what Prometheus has is not scraped for hours"
    assert seen(folder, sent) == [1], "a person still sees it"
    publish_state(tmp_path, "running", run_id="20260102T000000Z-scenario2", parameters=parameters(SCENARIO="scenario2"))
    assert (seen(folder, **first), seen(folder, scenario="scenario2")) == ([], [1])


def test_state_that_is_no_state_is_ignored(tmp_path: Path) -> None:
    folder = LiveFolder(tmp_path, EXPERIMENTS)
    for text in ("", "{", "[]", '{"state": "running"}', '{"state": "running", "run_id": "x", "parameters": 5}'):
        (tmp_path / "state.json").write_text(text)
        assert seen(folder) == []


def test_a_run_whose_controller_was_killed_does_not_stay_active(writer: Writer, run: LiveRun) -> None:
    writer.send(0, ago_ms=SILENCE_NS // MS - 5000)
    run.advance()
    assert perf_counter_ns() < run.alive_until_ns
    writer.send(1, ago_ms=SILENCE_NS // MS + 100)
    run.advance()
    assert perf_counter_ns() > run.alive_until_ns


UPTIME = BROKERS[DEFAULT].metrics["lab_broker_uptime_seconds"]
DOWN = {"lab_broker_up": 0.0}


def figures(part: BrokerWatch | HostWatch) -> dict[str, float]:
    """Samples by family, of several with labels by family and the last label."""
    page = Page()
    part.add_to(page)
    return {
        ":".join([one.name, *list(one.labels.values())[-1:]]): float(one.value)
        for family in page.collect()
        for one in family.samples
    }


@pytest.fixture
def watched() -> Iterator[tuple[BrokerWatch, Visit]]:
    """Yield a watch, and the broker's end of its connection."""
    with contextlib.closing(NonsenseBroker()) as broker:
        watch = BrokerWatch(HOST, broker.port, broker_topics(EXPERIMENTS))
        visit = broker.visit()
        assert visit.begins()
        assert visit.say(WELCOME)
        yield watch, visit
        watch.stop()
        visit.close()


def test_broker_that_hangs_is_down_though_connected(
    watched: tuple[BrokerWatch, Visit], monkeypatch: pytest.MonkeyPatch
) -> None:
    watch, visit = watched
    monkeypatch.setattr(exporter_broker, "SILENCE_S", 0.5)

    def speaks() -> bool:
        return visit.say(publish(b"12 seconds", UPTIME)) and figures(watch)["lab_broker_up"] == 1

    until(speaks, "the broker is up")
    until(lambda: figures(watch) == DOWN, "the silence is seen")
    until(speaks, "the same connection speaks again")


@pytest.mark.parametrize("payload", [b"", b"{", b"[]", b'{"counts": 5}', b'{"counts": {"a": "x"}}', b"\xff"])
def test_bridge_info_that_is_none_is_left_out(watched: tuple[BrokerWatch, Visit], payload: bytes) -> None:
    watch, visit = watched
    said = {TOPIC_BRIDGE_INFO: payload, "$SYS/broker/clients/connected": b"many", UPTIME: b"12 seconds"}
    for topic, value in said.items():
        assert visit.say(publish(value, topic))
    until(lambda: figures(watch).get("lab_broker_uptime_seconds") == 12, "the uptime is heard")
    found = figures(watch)
    assert not [name for name in found if name.startswith("lab_bridge_events_total")]
    assert "lab_broker_clients_connected" not in found


def proc(root: Path, pid: int, comm: str, ticks: int, started: int = 5) -> None:
    folder = root / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    fields = ["S", *["0"] * 10, str(ticks), "0", *["0"] * 6, str(started), "0", "100", *["0"] * 20]
    (folder / "stat").write_text(f"{pid} ({comm}) " + " ".join(fields) + "\n")


def test_a_parts_cpu_time_never_falls(tmp_path: Path) -> None:
    proc(tmp_path, 10, "stress", 100)
    proc(tmp_path, 11, "stress", 100)
    proc(tmp_path, 12, "bash (odd) name", 999)
    (tmp_path / "stat").write_text("cpu 1 2 3 4\nprocs_running 2\n")
    host = HostWatch(process_names(EXPERIMENTS), tmp_path)
    first = figures(host)
    assert first["lab_processes:stress"] == 2
    assert first["lab_processes:robot"] == 0
    spent = "lab_process_cpu_seconds_total:stress"
    (tmp_path / "11" / "stat").unlink()
    proc(tmp_path, 10, "stress", 150)
    after = figures(host)[spent]
    assert after == pytest.approx(first[spent] + 0.5)
    # The same number given to a new process counts from nought.
    proc(tmp_path, 10, "stress", 20, started=900)
    assert figures(host)[spent] == pytest.approx(after + 0.2)
