"""What the dashboard asks PostgreSQL, asked of a real one as the user that may only read."""

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from support.places import ROOT
from support.postgres import Postgres

from looplab.experiments.twin.message import payload

DASHBOARD = ROOT / "grafana/dashboards/digital-twin.json"
DEVICES, MESSAGES = 3, 20_000


def queries() -> dict[str, str]:
    """Return the SQL of each panel, with what Grafana puts in for its macro."""
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    asked = {p["title"]: p["targets"][0]["rawSql"] for p in panels if "rawSql" in (p.get("targets") or [{}])[0]}
    between = r"\1 BETWEEN now() - interval '15 min' AND now() + interval '1 s'"
    return {title: re.sub(r"\$__timeFilter\((\w+)\)", between, sql) for title, sql in asked.items()}


@pytest.fixture(scope="module")
def stored(cluster: Postgres) -> Iterator[Postgres]:
    """An earlier run of one device, and a newer one of three with a row each 10 ms."""
    cluster.do("TRUNCATE message")
    rows = [("0000000a", 9, 0, "now() - interval '1 hour'")]
    rows += [("ffffffff", 1 + k % DEVICES, k, f"now() - interval '{MESSAGES - k} ms' * 10") for k in range(MESSAGES)]
    values = ", ".join(
        f"('{run}', {device}, {k}, {k}, {k}, {at}, '\\x{payload(run.encode(), device, k, k, 64).hex()}')"
        for run, device, k, at in rows
    )
    cluster.do(f"INSERT INTO message (run, device, sequence, sent_ns, arrived_ns, stored_at, payload) VALUES {values}")
    cluster.do("ANALYZE message")
    yield cluster
    cluster.do("TRUNCATE message")


def read(postgres: Postgres, sql: str) -> list[dict[str, Any]]:
    with psycopg.connect(postgres.conninfo("twin_viewer"), row_factory=psycopg.rows.dict_row) as session:
        return session.execute(sql).fetchall()  # type: ignore[call-overload, no-any-return]


def test_both_panels_ask(stored: Postgres) -> None:
    assert len(queries()) == 2


def test_the_twin_is_the_newest_runs_last_value_of_each_device(stored: Postgres) -> None:
    found = read(stored, queries()["The twin: last value of each device"])
    assert [row["device"] for row in found] == [1, 2, 3]
    assert {row["message"] for row in found} == set(range(MESSAGES - DEVICES, MESSAGES))
    assert all(23 <= row["temperature"] <= 27 for row in found)


def test_a_hundred_rows_a_second_are_counted(stored: Postgres) -> None:
    found = read(stored, queries()["Rows stored a second, by the database"])
    whole = [row["rows"] for row in found][1:-1]
    assert len(whole) > 100
    assert set(whole) == {100}
    assert [row["time"] for row in found] == sorted(row["time"] for row in found)


def test_the_twin_is_looked_up_without_reading_the_whole_table(stored: Postgres) -> None:
    """Grafana asks every few seconds, while a run is measured."""
    plan = "\n".join(
        str(row["QUERY PLAN"]) for row in read(stored, f"EXPLAIN {queries()['The twin: last value of each device']}")
    )
    assert "Seq Scan on message" not in plan
    assert "message_pkey" in plan


def test_a_viewers_sql_ends_after_a_second(cluster: Postgres) -> None:
    """Anybody who sees the dashboards may send any statement through Grafana, one at a time."""
    endless = "DO $$ BEGIN LOOP PERFORM 1; END LOOP; END $$"
    with psycopg.connect(cluster.conninfo("twin_viewer"), autocommit=True) as session:
        begun_s = time.monotonic()
        with pytest.raises(psycopg.errors.QueryCanceled):
            session.execute(endless)
        assert time.monotonic() - begun_s < 30
        # Nor does one fill the disk, in however many statements of a second, with what it writes or sorts.
        with pytest.raises((psycopg.errors.QueryCanceled, psycopg.errors.ConfigurationLimitExceeded)):
            session.execute("SELECT count(*) FROM generate_series(1, 1000000000)")
        session.execute("SET default_transaction_read_only = off")
        for refused in (
            "SELECT set_config('statement_timeout', '0', false)",
            "DELETE FROM message",
            "CREATE TABLE x ()",
            "CREATE TEMPORARY TABLE x ()",
            "SELECT lo_create(0)",
            "SELECT lo_from_bytea(0, 'a')",
            "SET temp_file_limit = -1",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                session.execute(refused)
        with pytest.raises(psycopg.OperationalError, match="too many connections"):
            psycopg.connect(cluster.conninfo("twin_viewer"))
