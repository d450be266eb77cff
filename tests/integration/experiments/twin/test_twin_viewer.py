"""What a viewer of Grafana may ask PostgreSQL, asked of a real one as the user that may only read."""

import time

import psycopg
import pytest
from support.postgres import Postgres


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
