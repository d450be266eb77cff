"""A run on real parts: every message is stored once, in every write mode and at every QoS."""

from itertools import pairwise

import psycopg
import pytest
from support.postgres import Postgres
from support.twin_lab import TwinLab, account


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
