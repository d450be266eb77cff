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
from support.run_files import Writer, parameters, publish_state
from support.waiting import until

from looplab.errors import MachineError
from looplab.experiments.loop.protocol import TOPIC_BRIDGE_INFO, TOPIC_ROBOT_STATUS
from looplab.experiments.registry import EXPERIMENTS
from looplab.exporter.broker import SILENCE_S, BrokerWatch
from looplab.exporter.machine import HostWatch
from looplab.exporter.server import Exporter, broker_topics, process_names, server
from looplab.metrics.page import Page
from looplab.spec.brokers import BROKERS, DEFAULT

UPTIME = BROKERS[DEFAULT].metrics["lab_broker_uptime_seconds"]
DOWN = {"lab_broker_up": 0.0}


def values(part: BrokerWatch | HostWatch) -> dict[str, float]:
    """Samples by family, of several with labels by family and the last label."""
    page = Page()
    part.add_to(page)
    return {
        ":".join([one.name, *list(one.labels.values())[-1:]]): float(one.value)
        for family in page.families()
        for one in family.samples
    }


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

    def values_after(self, messages: Mapping[str, bytes], uptime_s: int = 12) -> dict[str, float]:
        """Publish these and the uptime; return the watch's values once it has heard them."""
        for topic, payload in messages.items():
            assert self.says(topic, payload)
        assert self.says(UPTIME, b"%d seconds" % uptime_s)
        until(lambda: values(self.watch).get("lab_broker_uptime_seconds") == uptime_s, "the uptime is heard")
        return values(self.watch)

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
    found = broker.values_after({"$SYS/broker/clients/connected": b"3", TOPIC_ROBOT_STATUS: b"offline"})
    assert found["lab_broker_up"] == 1
    assert found["lab_broker_uptime_seconds"] == 12
    assert found["lab_broker_clients_connected"] == 3
    assert found["lab_robot_online"] == 0
    assert "lab_bridge_online" not in found, "nobody has told"
    broker.connection.close()
    until(lambda: values(broker.watch) == DOWN, "the loss is seen", SILENCE_S / 2)


def test_broker_that_hangs_is_down_though_connected(forgetful: WatchedBroker) -> None:
    def speaks() -> bool:
        return forgetful.says(UPTIME, b"12 seconds") and values(forgetful.watch)["lab_broker_up"] == 1

    until(speaks, "the broker is up")
    until(lambda: values(forgetful.watch) == DOWN, "the silence is seen")
    until(speaks, "the same connection speaks again")


@pytest.mark.parametrize("payload", [b"", b"{", b"[]", b'{"counts": 5}', b'{"counts": {"a": "x"}}', b"\xff"])
def test_bridge_info_that_is_none_is_left_out(broker: WatchedBroker, payload: bytes) -> None:
    found = broker.values_after({TOPIC_BRIDGE_INFO: payload, "$SYS/broker/clients/connected": b"many"})
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
    host = HostWatch(process_names(EXPERIMENTS), tmp_path)
    first = values(host)
    assert first["lab_processes:stress"] == 2
    assert first["lab_processes:robot"] == 0
    spent = "lab_process_cpu_seconds_total:stress"
    (tmp_path / "11" / "stat").unlink()
    proc(tmp_path, 10, "stress", 150)
    after = values(host)[spent]
    assert after == pytest.approx(first[spent] + 0.5)
    # The same number given to a new process counts from nought.
    proc(tmp_path, 10, "stress", 20, started=900)
    assert values(host)[spent] == pytest.approx(after + 0.2)


@pytest.fixture
def exporter(tmp_path: Path) -> Exporter:
    return Exporter(tmp_path, EXPERIMENTS, None, HostWatch({}))


def test_pages_are_prometheus_text(tmp_path: Path, exporter: Exporter) -> None:
    writer = Writer(tmp_path)
    publish_state(tmp_path, "running", parameters={**parameters(), "scenario": 'odd"name\\'})
    writer.send(0)
    writer.answer(0)
    serving = server(exporter, "127.0.0.1", 0)
    threading.Thread(target=serving.serve_forever, args=(0.02,), daemon=True).start()
    base = f"http://127.0.0.1:{serving.server_port}"
    try:
        for path in ("/metrics", "/metrics/live"):
            with urllib.request.urlopen(base + path, timeout=5) as answer:
                families = {one.name: one for one in text_string_to_metric_families(answer.read().decode())}
            assert (families["lab_latency_seconds"].type, families["lab_messages"].type) == ("histogram", "counter")
            counts = [one for one in families["lab_latency_seconds"].samples if one.name.endswith("_count")]
            assert {one.labels["metric"]: one.value for one in counts} == {"T": 1, "R": 1, "O": 1, "send lateness": 1}
            assert counts[0].labels["scenario"] == 'odd"name\\'
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

    serving = server(exporter, "127.0.0.1", 0)
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
            server(exporter, *taken.getsockname())
    assert "EXPORTER_PORT" in caught.value.remedy
