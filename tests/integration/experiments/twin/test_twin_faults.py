"""Faults in the middle of a run, with real processes: what was sent is stored, lost or refused, each message once."""

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import paho.mqtt.publish
import pytest
from support.parts import HOST, Broker, Listener
from support.postgres import Postgres, open_folder
from support.twin_lab import TwinLab, account
from support.waiting import until
from support.wire import Wire

# As root it would become a user who may not write there.
PERSISTENT = "persistence true\nautosave_interval 1\nuser root\npersistence_location {}/\n"


def result(lab: TwinLab) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the only cell and the fates of its messages, after the run has ended."""
    lab.children["controller"].wait()
    (cell,) = lab.run["cells"]
    found = account(cell, lab.samples())
    assert lab.stored() == found["stored"]
    return cell, found


@pytest.mark.parametrize(("part", "qos"), [("database", "1"), ("instance", "2"), ("worker", "1")])
def test_what_is_killed_loses_no_message(lab: TwinLab, part: str, qos: str) -> None:
    lab.controller(WRITE_MODE="row" if part == "database" else "copy", QOS=qos)
    lab.until_stored(60)
    if part == "database":
        lab.postgres.kill()
        time.sleep(1)
        lab.postgres.start()
    elif part == "worker":
        os.kill(lab.workers()[0], signal.SIGKILL)
    else:
        lab.kill_instance()
        time.sleep(0.5)
        lab.instance()
    cell, found = result(lab)
    assert found == {"stored": 300, "lost": 0, "refused": 0}
    assert (cell["worker_restarts"] == 1, cell["database_errors"] > 0) == (part != "database", part == "database")
    # Another process of the database, or of the instance, in the end.
    assert any(f"{part} process" in why for why in lab.run["invalid_because"]) == (part != "worker")
    assert lab.run["valid"] == (part == "worker"), lab.run["invalid_because"]


def test_at_qos_0_a_killed_worker_loses_what_came_meanwhile(lab: TwinLab) -> None:
    lab.controller(QOS="0", DRAIN_TIMEOUT_S="1")
    lab.until_stored(60)
    os.kill(lab.workers()[0], signal.SIGKILL)
    _cell, found = result(lab)
    assert found["lost"] > 0
    assert found["stored"] + found["lost"] == 300


@pytest.mark.parametrize("persistent", [True, False])
def test_a_killed_broker_has_what_its_file_has(
    make_lab: Callable[..., TwinLab], tmp_path: Path, persistent: bool
) -> None:
    """It writes sessions and queue to disk every second or two, or never: what it holds comes again, or is lost."""
    lab = make_lab(PERSISTENT.format(tmp_path) if persistent else "", inflight=5)
    # 20 a second: the devices have sent all long before the queue is empty.
    lab.controller(WRITE_MODE="sleep", MESSAGES="110", DRAIN_TIMEOUT_S="60" if persistent else "2")
    lab.until_stored(20)
    sent_by_ns, now_s = time.perf_counter_ns(), time.time()
    if persistent:
        until(lambda: (tmp_path / "mosquitto.db").stat().st_mtime > now_s, "the broker has saved its queue")
    lab.broker.kill()
    waiting = 110 - lab.stored()
    lab.broker.start()
    _cell, found = result(lab)
    assert max(int(row["sent_ns"]) for row in lab.samples()) < sent_by_ns
    assert waiting > 10
    assert sum(found.values()) == 110
    assert (found["lost"] == 0, found["refused"]) == (persistent, 0)


def test_of_two_machines_one_goes_on(make_lab: Callable[..., TwinLab], start_broker: Callable[..., Broker]) -> None:
    """It loses what its broker held."""
    lab = make_lab()
    lab.more_brokers.append(start_broker(more="allow_anonymous true\nmax_queued_messages 0\nmax_inflight_messages 0\n"))
    # Each broker is given 25 messages a second for 4 s, and its worker stores fewer than 20.
    settings = {"WRITE_MODE": "sleep", "MESSAGES": "200", "INTERVALS_MS": "20", "DRAIN_TIMEOUT_S": "8"}
    lab.controller(SCENARIO="twin-brokers", BROKERS="2", **settings)
    lab.until_stored(20)
    lab.more_brokers[0].kill()
    lab.children["controller"].wait()
    account(lab.run["cells"][0], lab.samples())
    fates = {
        number: Counter(row["outcome"] for row in lab.samples() if row["broker"] == f"{number}") for number in (1, 2)
    }
    for number, fate in fates.items():
        assert fate.total() == 100
        assert (fate["lost"] > 0) == (number == 2), fates
        assert fate["stored"] == (100 - fate["lost"])
    assert lab.stored() == sum(fate["stored"] for fate in fates.values())
    assert not lab.run["valid"]


def test_a_network_that_is_cut_loses_nothing(make_lab: Callable[..., TwinLab], wire: Wire) -> None:
    """The broker is on another network than the devices and the instance, and its cable is pulled."""
    lab = make_lab(host=wire.there, within=wire.command())
    lab.controller(MESSAGES="600")
    lab.until_stored(60)
    with wire.cut():
        time.sleep(6)
    cell, found = result(lab)
    assert found == {"stored": 600, "lost": 0, "refused": 0}
    assert cell["disconnects"] >= 2
    assert lab.run["valid"], lab.run["invalid_because"]
    sent, committed = (sorted(int(row[name]) for row in lab.samples()) for name in ("sent_ns", "committed_ns"))
    # An open loop: the devices went on sending on their schedule, and nothing was stored meanwhile.
    assert sent[-1] - sent[0] < 5e9
    assert max(after - before for before, after in pairwise(committed)) > 5e9


def test_what_is_no_message_is_counted_and_harms_none(lab: TwinLab) -> None:
    """A million random bytes on the devices' own topic, and copies of a message that is stored already."""
    spy = Listener(lab.broker.port, "twin/#")
    # All of it arrives while the devices still send.
    lab.controller(MESSAGES="200", INTERVALS_MS="20")
    until(lambda: spy.messages, "the first message")
    topic, payload = spy.messages[0].topic, bytes(spy.messages[0].payload)
    lab.until_stored(1)
    noise = [os.urandom(1 << (number % 14)) for number in range(900)]
    assert sum(map(len, noise)) > 1_000_000
    noise += [os.urandom(600_000 - 1), b"", payload[:-1] + b"x", b"0" * 8 + payload[8:]]
    messages = [(topic, data, 1, False) for data in [*noise, payload, payload]]
    paho.mqtt.publish.multiple(messages, HOST, lab.broker.port)
    spy.close()
    cell, found = result(lab)
    assert found == {"stored": 200, "lost": 0, "refused": 0}
    assert cell["malformed"] == len(noise)
    assert cell["duplicates"] == 2


def test_an_oversized_payload_is_refused_and_confirmed(lab: TwinLab) -> None:
    lab.controller(MESSAGES="50", PAYLOAD_BYTES="5000")
    _cell, found = result(lab)
    assert found == {"stored": 0, "lost": 0, "refused": 50}
    assert lab.stored() == 0


@pytest.fixture
def full_disk() -> Iterator[Path]:
    """A file system of 90 MB."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    with open_folder() as folder:
        assert os.system(f"mount -t tmpfs -o size=90m tmpfs {folder}") == 0
        yield folder
        assert os.system(f"umount {folder}") == 0


def test_a_full_disk_stores_nothing_and_loses_nothing(make_lab: Callable[..., TwinLab], full_disk: Path) -> None:
    postgres = Postgres(full_disk)
    try:
        lab = make_lab(postgres=postgres)
        lab.controller(PAYLOAD_BYTES="4000", MESSAGES="400", WRITE_MODE="copy", DRAIN_TIMEOUT_S="40")
        lab.until_stored(20)
        ballast = full_disk / "ballast"
        with ballast.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(65536))
            except OSError:
                pass
        threading.Timer(1.5, lambda: postgres.recover(ballast)).start()
        cell, found = result(lab)
        assert found == {"stored": 400, "lost": 0, "refused": 0}
        assert cell["database_errors"] > 0
    finally:
        postgres.close()
