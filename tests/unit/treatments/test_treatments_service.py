"""The treatments service: whom it serves and starts for; what a broker reports of itself, or does not."""

import http.server
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.parts import HOST
from support.places import ROOT
from support.waiting import until

from looplab.errors import EXIT_MACHINE, UsageError
from looplab.experiments.registry import EXPERIMENTS
from looplab.exporter import broker as exporter_broker
from looplab.exporter.broker import BrokerWatch
from looplab.exporter.server import broker_topics
from looplab.metrics.page import Page
from looplab.spec.brokers import BROKERS
from looplab.spec.roles import CONTROLLER
from looplab.system import processes
from looplab.treatments.broker import published, version
from looplab.treatments.loads import loads
from looplab.treatments.scans import TOKEN
from looplab.treatments.service import answer, end_loads, permitted

PERMITTED = permitted(EXPERIMENTS)


def asked(comm: str, fifo: Any = 0, **more: Any) -> dict[str, Any]:
    return {"roles": {"one": {"comm": [comm], "fifo": fifo, **more}}}


@pytest.mark.parametrize(
    "request_",
    [
        asked("stress", 99), asked("stress", "99"), asked("python3"), asked("systemd", 1), asked("lab-bridge", 96),
        asked("robot", -1), asked("mosquitto", 0, files=["etc/shadow"]), asked("mosquitto", 100), asked("", 0),
    ],
)  # fmt: skip
def test_no_other_role_and_no_higher_priority(request_: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="none of this lab"):
        answer(request_, PERMITTED)


def test_what_each_experiment_asks_is_answered() -> None:
    roles = [role for experiment in EXPERIMENTS.values() for role in experiment.roles]
    roles += [broker.role for broker in BROKERS.values()] + [load.role for load in loads().values()]
    # As a run without priorities asks: the machine of this test may run such processes, and they stay as they are.
    for role in roles:
        answer({"roles": {role.name: {**role.question(), "fifo": 0}}}, PERMITTED)
        assert PERMITTED[role.comms, role.files] >= role.fifo
    assert PERMITTED[CONTROLLER.comms, ()] == 99
    assert {PERMITTED[load.role.comms, ()] for load in loads().values()} == {0}


@pytest.mark.parametrize("content", [None, ""])
def test_it_does_not_start_without_a_token(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / TOKEN).write_text(content)
    variables = {"PYTHONPATH": str(ROOT / "src"), "TOKENS": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "looplab.experiments.treatments"],
        env={**os.environ, **variables}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == EXIT_MACHINE
    assert "No token" in done.stderr


def test_loads_are_ended_in_the_labs_own_namespace_alone() -> None:
    with pytest.raises(UsageError, match="process 1"):
        end_loads()


def test_a_containers_first_process_has_its_parent_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """7 is a loop whose child 8 is the load; 9 is a load that lost its parent and went to process 1."""
    for pid, parent in ((1, 0), (7, 0), (8, 7), (9, 1)):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / f"{pid}/stat").write_text(f"{pid} (a (b) c) S {parent} 0\n")
    killed: list[int] = []
    monkeypatch.setattr(processes.os, "kill", lambda pid, _number: killed.append(pid))
    for pid in (8, 9, 10):
        processes.end_container(pid, tmp_path)
    assert sorted(killed) == [7, 8, 9, 10]


# As RabbitMQ 4.0.5 writes it, cut.
PAGE = """# TYPE rabbitmq_build_info untyped
rabbitmq_build_info{rabbitmq_version="4.0.5",erlang_version="27.3.4.1"} 1
rabbitmq_erlang_uptime_seconds 7.338
rabbitmq_global_messages_received_total{protocol="amqp091"} 5
rabbitmq_global_messages_received_total{protocol="mqtt311"} 1234
rabbitmq_global_messages_delivered_total{protocol="mqtt311",queue_type="rabbit_classic_queue"} 30
rabbitmq_global_messages_delivered_total{protocol="mqtt311",queue_type="rabbit_mqtt_qos0_queue"} 12
"""
NOBODY = 1


@pytest.fixture
def served(tmp_path: Path) -> Iterator[int]:
    """The port of a server of that page."""
    (tmp_path / "metrics").write_text(PAGE)
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    server = http.server.ThreadingHTTPServer((HOST, 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


def test_a_page_has_version_and_count_which_the_exporter_shows(served: int, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = replace(BROKERS["rabbitmq"], page=f"{served}/metrics")
    assert version(broker, HOST, NOBODY) == "4.0.5"
    assert published(broker, HOST, NOBODY)[0] == 1234
    monkeypatch.setattr(exporter_broker, "PAGE_S", 0.05)
    watch = BrokerWatch(HOST, NOBODY, broker_topics(EXPERIMENTS), broker=broker)

    def shown() -> dict[str, float]:
        watch.add_to(page := Page())
        return {one.name: one.value for family in page.collect() for one in family.samples}

    try:
        until(lambda: shown().get("lab_broker_uptime_seconds"), "the page is read")
        found = shown()
    finally:
        watch.stop()
    assert (found["lab_broker_up"], found["lab_broker_publish_received_total"]) == (1, 1234)
