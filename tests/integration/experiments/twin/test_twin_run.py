"""A run on real parts: each message is stored once, in every write mode, at every QoS, also by device workers."""

import contextlib
import os
import signal
import socket
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import psycopg
import pytest
from support.parts import Child, python
from support.ports import free_port
from support.postgres import Postgres
from support.run_checks import treatments
from support.twin_lab import TwinLab, account
from support.waiting import until


def test_every_message_is_stored_once_at_every_qos(lab: TwinLab) -> None:
    run = lab.whole(QOS="0,1,2", WRITE_MODE="row,copy", MESSAGES="50")
    assert run["valid"], run["invalid_because"]
    assert len(run["cells"]) == 6
    samples = lab.samples()
    for cell in run["cells"]:
        mine = [row for row in samples if (row["write_mode"], int(row["qos"])) == (cell["write_mode"], cell["qos"])]
        assert account(cell, mine) == {"stored": 50, "lost": 0, "refused": 0}
        assert (cell["duplicates"], cell["malformed"], cell["disconnects"]) == (0, 0, 0)
        assert all(
            int(row["due_ns"]) <= int(row["sent_ns"]) <= int(row["arrived_ns"]) <= int(row["committed_ns"])
            for row in mine
        )
    table = lab.postgres.ask("SELECT sequence, payload, sent_ns, arrived_ns FROM message ORDER BY sequence")
    assert [row[0] for row in table] == list(range(300))
    assert {len(bytes(row[1])) for row in table} == {64}
    arrived = {int(row["sequence"]): int(row["arrived_ns"]) for row in samples}
    assert all(arrived[int(str(row[0]))] == row[3] for row in table)


def test_each_write_mode_does_what_its_name_says(lab: TwinLab) -> None:
    run = lab.whole(WRITE_MODE="prototype,sleep,session,copy", MESSAGES="20", INTERVALS_MS="2")
    cells = {cell["write_mode"]: cell for cell in run["cells"]}
    assert all(cell["stored"] == 20 for cell in cells.values())
    assert {mode: cell["instance_s"]["sleep"] for mode, cell in cells.items()} == {
        "prototype": 1.0, "sleep": 1.0, "session": 0.0, "copy": 0.0,
    }  # fmt: skip
    # A sleep of 50 ms after each message: never more than 20 a second.
    assert all(cells[mode]["rate_out_per_s"] < 20 for mode in ("prototype", "sleep"))
    for mode in ("prototype", "session"):
        assert cells[mode]["instance_s"]["session"] > cells["sleep"]["instance_s"]["session"]
    assert cells["copy"]["fsync"]["count"] < 20 <= cells["session"]["fsync"]["count"]


def test_workers_of_one_subscription_store_each_message_once(lab: TwinLab) -> None:
    """What more brokers brought, a second worker of one broker brings, too."""
    run = lab.whole(WRITE_MODE="sleep", MESSAGES="60", INTERVALS_MS="5", WORKERS="2")
    (cell,) = run["cells"]
    assert account(cell, lab.samples()) == {"stored": 60, "lost": 0, "refused": 0}
    assert cell["duplicates"] == 0
    assert cell["instance_s"]["sleep"] == 3.0
    # Each sleeps 50 ms after a message: of one alone, no commit follows another sooner.
    committed_ns = sorted(int(row["committed_ns"]) for row in lab.samples())
    assert sum(after - before < 50_000_000 for before, after in pairwise(committed_ns)) > 15


def test_the_search_finds_a_limit_that_was_put_in(lab: TwinLab) -> None:
    """A sleep of 50 ms after each message: fewer than 20 a second are stored."""
    run = lab.whole(
        SCENARIO="twin-limit", WRITE_MODE="sleep", STEP_S="3", MAX_RATE_PER_S="200", SEARCH_STEPS="4",
        DRAIN_TIMEOUT_S="1", DELAY_LIMIT_MS="1000",
    )  # fmt: skip
    (cell,) = run["cells"]
    # What too much of it stored is what this machine could do at that moment, sleep and all.
    overloaded = [step for step in cell["steps"] if not step["sustained"]]
    assert 0.6 * min(step["stored_per_s"] for step in overloaded) < cell["limit_per_s"] < 20
    # Others may leave this machine no room.
    assert cell["limited_by"] in ("sleep", "machine"), cell["evidence"]
    assert not cell["steps"][0]["sustained"]
    assert cell["steps"][-1]["sustained"]
    assert (cell["lost"], cell["stored"]) == (0, cell["sent"])


def test_who_may_only_read_writes_nothing(cluster: Postgres) -> None:
    """The controller's user fills no disk either, with what it makes for its session alone."""
    with psycopg.connect(cluster.conninfo("twin_reader"), autocommit=True) as session:
        assert session.execute("SELECT count(*) >= 0 FROM message").fetchone() == (True,)
        for refused in (
            "DELETE FROM message",
            "CREATE TABLE x ()",
            "CREATE TEMPORARY TABLE x ()",
            "SELECT lo_create(0)",
            "SELECT lo_from_bytea(0, 'a')",
            "SET temp_file_limit = -1",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                session.execute(refused)


HOSTS = ("one", "two", "three")
WORKER = python("looplab.experiments.twin.device_worker")


@pytest.fixture
def workers(
    lab: TwinLab, start_command: Callable[..., Child], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> dict[str, Child]:
    """Three workers that wait for a controller, and its token."""
    (tmp_path / "device-workers").write_text("of-this-start")
    monkeypatch.setenv("TOKENS", str(tmp_path))
    monkeypatch.setenv("DEVICE_PORT", str(free_port()))
    return {host: start_command(WORKER, CONTROLLER="127.0.0.1", LAB_NODE=host) for host in HOSTS}


def test_workers_share_the_messages_of_each_cell(lab: TwinLab, workers: dict[str, Child]) -> None:
    run = lab.whole(DEVICE_WORKERS="3", MESSAGES="100", INTERVALS_MS="5,8", DEVICES="2")
    assert run["valid"], run["invalid_because"]
    samples = lab.samples()
    for cell in run["cells"]:
        mine = [row for row in samples if row["interval_ms"] == f"{cell['interval_ms']:g}"]
        assert account(cell, mine) == {"stored": 100, "lost": 0, "refused": 0}
        assert [(one["host"], one["sent"], one["stored"]) for one in cell["device_workers"]] == [
            ("one", 33, 33), ("three", 33, 33), ("two", 34, 34),
        ]  # fmt: skip
        assert (cell["duplicates"], cell["disconnects"]) == (0, 0)
    assert treatments(run)["device workers"]["note"] == "on one, three, two"
    assert treatments(run)["devices TCP_NODELAY"]["found"] == "on"
    # Here all share one clock, and the payload has the true time of sending.
    true_ns = {int(str(row[0])): int(str(row[1])) for row in lab.postgres.ask("SELECT sequence, sent_ns FROM message")}
    error_ns = 1000 * max(one["start_error_us"] for cell in run["cells"] for one in cell["device_workers"])
    apart_ns = [abs(int(row["sent_ns"]) - true_ns[int(row["sequence"])]) for row in samples]
    # The payload is made a moment after the stamp.
    assert sorted(apart_ns)[len(apart_ns) // 2] < error_ns + 1_000_000


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_worker_that_ends_is_named_and_all_accounted(
    lab: TwinLab, workers: dict[str, Child], number: signal.Signals
) -> None:
    # It sends for six seconds, because a busy machine sees late how much is stored.
    child = lab.controller(DEVICE_WORKERS="3", MESSAGES="600", INTERVALS_MS="10", DRAIN_TIMEOUT_S="3")
    lab.until_stored(100)
    workers["two"].signal(number)
    assert child.wait() == 1
    run = lab.run
    (cell,) = run["cells"]
    found = account(cell, [row for row in lab.samples() if row["outcome"]])
    one, three, two = cell["device_workers"]
    assert (one["stored"], three["stored"]) == (200, 200)
    assert 10 < two["sent"] < 200
    assert found["stored"] == lab.stored() == 400 + two["stored"]
    assert found["lost"] == two["sent"] - two["stored"] == 0
    assert treatments(run)["device workers"]["found"] == "fell: two"
    why = f"device worker 3 on two was lost: {two['sent']} of 200 messages sent, {two['stored']} stored"
    assert any(why in reason for reason in run["invalid_because"])


def test_a_stranger_is_no_device_worker(lab: TwinLab, workers: dict[str, Child]) -> None:
    """Without the token nobody sends for a run: neither a guess, nor a line of old, nor one without an end."""
    workers["one"].stop()
    child = lab.controller(DEVICE_WORKERS="3", MESSAGES="20", PARTS_TIMEOUT_S="5")
    address = ("127.0.0.1", int(os.environ["DEVICE_PORT"]))
    for line in (b"guess four\n", b" four\n", b'{"host": "four"}\n', b"\xff four\n", b"x" * 4000):
        with until(lambda: socket.create_connection(address, 20), "the controller listens") as sock:
            sock.sendall(line)
            # Reset, if it was closed before all was read.
            with contextlib.suppress(ConnectionResetError):
                assert sock.recv(100) == b""
    assert child.wait() == 1
    assert any("3 device workers wanted, there after 5 s: three, two" in why for why in lab.run["invalid_because"])


def test_without_a_token_none_starts(lab: TwinLab, start_command: Callable[..., Child], tmp_path: Path) -> None:
    none = {"TOKENS": str(tmp_path / "none"), "DEVICE_PORT": str(free_port())}
    for child in (start_command(WORKER, **none), lab.controller(DEVICE_WORKERS="1", **none)):
        assert child.wait() == 3
        assert "There is no token for device workers." in child.said()


def test_a_run_whose_processes_nobody_sees(lab: TwinLab, workers: dict[str, Child]) -> None:
    """As on a Swarm: what cannot be verified is named, and what the parts report still counts."""
    variables = {"TREATMENTS_URL": "http://127.0.0.1:9/facts", "SWARM": "on"}
    run = lab.whole(DEVICE_WORKERS="3", MESSAGES="30", MAX_INFLIGHT="0", **variables)
    assert run["valid"], run["invalid_because"]
    unread = treatments(run)["processes of other parts"]
    assert (unread["verified"], unread["required"]) == (False, False)
    assert treatments(run)["instance workers"]["verified"]
    until(lambda: lab.stored() == 30, "30 rows")
