"""A run on real parts: every message is stored once, in every write mode and at every QoS."""

import pytest
from support.twin_lab import TwinLab, account


@pytest.mark.parametrize("qos", ["0", "1", "2"])
def test_every_message_is_stored_once_at_every_qos(lab: TwinLab, qos: str) -> None:
    run = lab.whole(QOS=qos, WRITE_MODE="row,copy", MESSAGES="150")
    assert run["valid"], run["invalid_because"]
    for cell in run["cells"]:
        mine = [row for row in lab.samples() if row["write_mode"] == cell["write_mode"]]
        assert account(cell, mine) == {"stored": 150, "lost": 0, "refused": 0}
        assert (cell["duplicates"], cell["malformed"], cell["disconnects"]) == (0, 0, 0)
        assert all(
            int(row["due_ns"]) <= int(row["sent_ns"]) <= int(row["arrived_ns"]) <= int(row["committed_ns"])
            for row in mine
        )
    table = lab.postgres.ask("SELECT sequence, payload, sent_ns, arrived_ns FROM message ORDER BY sequence")
    assert [row[0] for row in table] == list(range(300))
    assert {len(bytes(row[1])) for row in table} == {64}
    arrived = {int(row["sequence"]): int(row["arrived_ns"]) for row in lab.samples()}
    assert all(arrived[int(str(row[0]))] == row[3] for row in table)


def test_each_write_mode_does_what_its_name_says(lab: TwinLab) -> None:
    run = lab.whole(WRITE_MODE="published,sleep,session,pipeline", MESSAGES="20", INTERVALS_MS="2")
    cells = {cell["write_mode"]: cell for cell in run["cells"]}
    assert all(cell["stored"] == 20 for cell in cells.values())
    assert {mode: cell["instance_s"]["sleep"] for mode, cell in cells.items()} == {
        "published": 1.0, "sleep": 1.0, "session": 0.0, "pipeline": 0.0,
    }  # fmt: skip
    # A sleep of 50 ms after each message: never more than 20 a second.
    assert all(cells[mode]["rate_out_per_s"] < 20 for mode in ("published", "sleep"))
    for mode in ("published", "session"):
        assert cells[mode]["instance_s"]["session"] > cells["sleep"]["instance_s"]["session"]
    assert cells["pipeline"]["fsync"]["count"] < 20 <= cells["session"]["fsync"]["count"]


def test_workers_that_share_a_subscription_store_each_message_once(lab: TwinLab) -> None:
    """What more brokers brought, a second worker of one broker brings, too."""
    run = lab.whole(WRITE_MODE="sleep", MESSAGES="60", INTERVALS_MS="5", WORKERS="2")
    (cell,) = run["cells"]
    assert account(cell, lab.samples()) == {"stored": 60, "lost": 0, "refused": 0}
    assert cell["duplicates"] == 0
    # Each sleeps 50 ms after a message: one alone stores fewer than 20 a second.
    assert cell["instance_s"]["sleep"] == 3.0
    assert cell["rate_out_per_s"] > 20


def test_the_queue_is_what_the_brokers_counters_allow(lab: TwinLab) -> None:
    run = lab.whole(WRITE_MODE="sleep", MESSAGES="60", INTERVALS_MS="5")
    (cell,) = run["cells"]
    assert 40 < cell["queue_max"] <= 60
    assert cell["drained_s"] > 1.5
    assert cell["sys"]["publish_received"] == 60
    lines = (lab.folder / "sys.csv").read_text().splitlines()
    assert len(lines) > 3
    assert lines[0].startswith("interval_ms,brokers,placement,write_mode,qos,repetition,time_ns,broker,")


def test_the_search_finds_a_limit_that_was_put_in(lab: TwinLab) -> None:
    """With a sleep of 20 ms after each message no more than 50 a second are stored."""
    run = lab.whole(
        SCENARIO="twin-limit", SLEEP_MS="20", STEP_S="2", MAX_RATE_PER_S="200", SEARCH_STEPS="6", DRAIN_TIMEOUT_S="1"
    )
    (cell,) = run["cells"]
    assert 20 < cell["limit_per_s"] < 50
    assert cell["limited_by"] == "sleep"
    assert cell["evidence"]["sleep"] > 0.6
    assert not cell["steps"][0]["sustained"]
    assert cell["steps"][-1]["sustained"]
    assert (cell["lost"], cell["stored"]) == (0, cell["sent"])
