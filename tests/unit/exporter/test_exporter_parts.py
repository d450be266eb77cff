"""Broker, processes and pages of the exporter."""

import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.mqtt_packets import publish
from support.nonsense_broker import WELCOME, NonsenseBroker
from support.parts import HOST
from support.run_files import Writer, publish_state, store
from support.waiting import until

from looplab.errors import MachineError
from looplab.experiments.loop.protocol import TOPIC_BRIDGE_INFO, TOPIC_ROBOT_STATUS
from looplab.experiments.registry import EXPERIMENTS
from looplab.exporter.broker import SILENCE_S, BrokerWatch
from looplab.exporter.machine import HostWatch
from looplab.exporter.server import Exporter, broker_topics, process_names, server
from looplab.spec.brokers import BROKERS, DEFAULT

UPTIME = BROKERS[DEFAULT].metrics["lab_broker_uptime_seconds"]
DOWN = "lab_broker_up 0\n"


class WatchedBroker:
    """A broker that lets a watch in and says what a test wants."""

    def __init__(self, silence_s: float = SILENCE_S) -> None:
        self._broker = NonsenseBroker()
        self.watch = BrokerWatch(HOST, self._broker.port, broker_topics(EXPERIMENTS), silence_s)
        self.watch.start()
        self.connection = self._broker.visit()
        assert self.connection.begins()
        assert self.connection.say(WELCOME)

    def says(self, topic: str, payload: bytes) -> bool:
        return self.connection.say(publish(payload, topic))

    def texts_after(self, messages: Mapping[str, bytes], uptime_s: int = 12) -> dict[str, str]:
        """Publish these and the uptime; return the watch's texts once it has heard them."""
        for topic, payload in messages.items():
            assert self.says(topic, payload)
        assert self.says(UPTIME, b"%d seconds" % uptime_s)
        heard = f"lab_broker_uptime_seconds {uptime_s}\n"
        until(lambda: self.watch.texts()["lab_broker_uptime_seconds"] == heard, "the uptime is heard")
        return self.watch.texts()

    def close(self) -> None:
        self.watch.stop()
        self.connection.close()
        self._broker.close()


@pytest.fixture
def broker() -> Iterator[WatchedBroker]:
    made = WatchedBroker()
    yield made
    made.close()


@pytest.fixture
def forgetful() -> Iterator[WatchedBroker]:
    """One whose watch takes it for dead after half a second."""
    made = WatchedBroker(silence_s=0.5)
    yield made
    made.close()


def test_broker_values_vanish_with_the_connection(broker: WatchedBroker) -> None:
    texts = broker.texts_after({"$SYS/broker/clients/connected": b"3", TOPIC_ROBOT_STATUS: b"offline"})
    assert texts["lab_broker_up"] == "lab_broker_up 1\n"
    assert texts["lab_broker_uptime_seconds"] == "lab_broker_uptime_seconds 12\n"
    assert texts["lab_broker_clients_connected"] == "lab_broker_clients_connected 3\n"
    assert texts["lab_robot_online"] == "lab_robot_online 0\n"
    assert "lab_bridge_online" not in texts, "nobody has told"
    broker.connection.close()
    until(lambda: "".join(broker.watch.texts().values()) == DOWN, "the loss is seen", SILENCE_S / 2)


def test_broker_that_hangs_is_down_though_connected(forgetful: WatchedBroker) -> None:
    def speaks() -> bool:
        return forgetful.says(UPTIME, b"12 seconds") and "lab_broker_up 1\n" in forgetful.watch.texts().values()

    until(speaks, "the broker is up")
    until(lambda: "".join(forgetful.watch.texts().values()) == DOWN, "the silence is seen")
    until(speaks, "the same connection speaks again")


@pytest.mark.parametrize("payload", [b"", b"{", b"[]", b'{"counts": 5}', b'{"counts": {"a": "x"}}', b"\xff"])
def test_bridge_info_that_is_none_is_left_out(broker: WatchedBroker, payload: bytes) -> None:
    texts = broker.texts_after({TOPIC_BRIDGE_INFO: payload, "$SYS/broker/clients/connected": b"many"})
    assert not texts.get("lab_bridge_events_total")
    assert "lab_broker_clients_connected" not in texts


def proc(root: Path, pid: int, comm: str, ticks: int, started: int = 5) -> None:
    folder = root / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    fields = ["S", *["0"] * 10, str(ticks), "0", *["0"] * 6, str(started), "0", "100", *["0"] * 20]
    (folder / "stat").write_text(f"{pid} ({comm}) " + " ".join(fields) + "\n")


def value(text: str, part: str) -> float:
    line = next(line for line in text.splitlines() if f'part="{part}"' in line)
    return float(line.rpartition(" ")[2])


def test_a_parts_cpu_time_never_falls(tmp_path: Path) -> None:
    proc(tmp_path, 10, "stress", 100)
    proc(tmp_path, 11, "stress", 100)
    proc(tmp_path, 12, "bash (odd) name", 999)
    host = HostWatch(process_names(EXPERIMENTS), tmp_path)
    first = host.texts()
    assert value(first["lab_processes"], "stress") == 2
    assert value(first["lab_processes"], "robot") == 0
    before = value(first["lab_process_cpu_seconds_total"], "stress")
    (tmp_path / "11" / "stat").unlink()
    proc(tmp_path, 10, "stress", 150)
    after = value(host.texts()["lab_process_cpu_seconds_total"], "stress")
    assert after == pytest.approx(before + 0.5)
    # The same number given to a new process counts from nought.
    proc(tmp_path, 10, "stress", 20, started=900)
    assert value(host.texts()["lab_process_cpu_seconds_total"], "stress") == pytest.approx(after + 0.2)


def test_this_machine_is_read() -> None:
    texts = HostWatch({}).texts()
    for family in ("lab_host_cpu_seconds_total", "lab_host_cpus", "lab_host_load1", "lab_host_memory_total_bytes"):
        assert texts[family].startswith(family)


@pytest.fixture
def exporter(tmp_path: Path) -> Exporter:
    (tmp_path / "live").mkdir()
    (tmp_path / "results").mkdir()
    return Exporter(tmp_path / "live", tmp_path / "results", EXPERIMENTS, None, HostWatch({}))


def keys(page: bytes) -> set[tuple[str, float]]:
    families = {f.name: f for f in text_string_to_metric_families(page.decode())}
    found = families.get("loop_run_active")
    return {(s.labels["scenario"], s.value) for s in found.samples} if found else set()


def test_a_run_is_on_one_page_at_a_time(tmp_path: Path, exporter: Exporter) -> None:
    store(tmp_path / "results", "20260101T000000Z-scenario1")
    store(tmp_path / "results", "20260101T000000Z-scenario2")
    exporter.stored.refresh()
    assert keys(exporter.stored_page()) == {("scenario1", 0), ("scenario2", 0)}
    assert keys(exporter.live_page()) == set()
    writer = Writer(tmp_path / "live")
    publish_state(tmp_path / "live", "running", run_id="20260102T000000Z-scenario1")
    writer.send(0)
    assert keys(exporter.live_page()) == {("scenario1", 1)}
    assert keys(exporter.stored_page()) == {("scenario2", 0)}
    assert keys(exporter.whole_page()) == {("scenario1", 1), ("scenario2", 0)}
    publish_state(tmp_path / "live", "finished", run_id="20260102T000000Z-scenario1")
    store(tmp_path / "results", "20260102T000000Z-scenario1")
    assert keys(exporter.live_page()) == {("scenario1", 0)}
    exporter.stored.refresh()
    # Now the live page shows the stored run, whole, with what only run.json knows.
    assert b'loop_run_valid{scenario="scenario1"' in exporter.live_page()
    assert exporter.whole_page().count(b'loop_run_valid{scenario="scenario1"') == 1
    assert keys(exporter.stored_page()) == {("scenario1", 0), ("scenario2", 0)}
    assert keys(exporter.live_page()) == set(), "the stored page has told it"
    assert keys(exporter.whole_page()) == {("scenario1", 0), ("scenario2", 0)}
    types = [line for line in exporter.whole_page().splitlines() if line.startswith(b"# TYPE")]
    assert len(types) == len(set(types)), "each family once"


def test_after_a_restart_a_finished_run_is_not_waited_for(tmp_path: Path, exporter: Exporter) -> None:
    for run_id in ("20260101T000000Z-scenario1", "20260102T000000Z-scenario2"):
        store(tmp_path / "results", run_id)
    exporter.stored.refresh()
    assert keys(exporter.live_page()) == {("scenario2", 0)}
    assert keys(exporter.whole_page()) == {("scenario1", 0), ("scenario2", 0)}


def test_http(exporter: Exporter) -> None:
    serving = server(exporter, ("127.0.0.1", 0))
    threading.Thread(target=serving.serve_forever, args=(0.02,), daemon=True).start()
    base = f"http://127.0.0.1:{serving.server_port}"
    try:
        for path in ("/metrics", "/metrics/live", "/metrics/stored?x=1", "/healthz"):
            assert urllib.request.urlopen(base + path, timeout=5).status == 200
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(base + "/other", timeout=5)
        assert refused.value.code == 404
    finally:
        serving.shutdown()
        serving.server_close()


def test_a_client_that_gave_up_is_no_error(exporter: Exporter, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(error: Exception) -> str:
        try:
            raise error
        except Exception:
            serving.handle_error(socket.socket(), ("127.0.0.1", 1))
        return capsys.readouterr().err

    serving = server(exporter, ("127.0.0.1", 0))
    try:
        assert fail(BrokenPipeError()) == ""
        assert "ValueError: of our own" in fail(ValueError("of our own"))
    finally:
        serving.server_close()


def test_port_in_use_names_the_variable(exporter: Exporter) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(MachineError) as caught:
            server(exporter, taken.getsockname())
    assert "EXPORTER_PORT" in caught.value.remedy
