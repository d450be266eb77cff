"""Broker, processes and pages of the exporter."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.mqtt_packets import publish
from support.nonsense_broker import WELCOME, NonsenseBroker, Visit
from support.parts import HOST
from support.waiting import until

from looplab.experiments.loop.protocol import TOPIC_BRIDGE_INFO
from looplab.experiments.registry import EXPERIMENTS
from looplab.exporter import broker as exporter_broker
from looplab.exporter.broker import BrokerWatch
from looplab.exporter.machine import HostWatch
from looplab.exporter.server import broker_topics, process_names
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
        return visit.say(publish(b"12 seconds", UPTIME)) and values(watch)["lab_broker_up"] == 1

    until(speaks, "the broker is up")
    until(lambda: values(watch) == DOWN, "the silence is seen")
    until(speaks, "the same connection speaks again")


@pytest.mark.parametrize("payload", [b"", b"{", b"[]", b'{"counts": 5}', b'{"counts": {"a": "x"}}', b"\xff"])
def test_bridge_info_that_is_none_is_left_out(watched: tuple[BrokerWatch, Visit], payload: bytes) -> None:
    watch, visit = watched
    said = {TOPIC_BRIDGE_INFO: payload, "$SYS/broker/clients/connected": b"many", UPTIME: b"12 seconds"}
    for topic, value in said.items():
        assert visit.say(publish(value, topic))
    until(lambda: values(watch).get("lab_broker_uptime_seconds") == 12, "the uptime is heard")
    found = values(watch)
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
