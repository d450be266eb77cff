"""What the controller's user may do in PostgreSQL, asked of a real one."""

import psycopg
import pytest
from support.postgres import Postgres


def test_who_may_only_read_writes_nothing(cluster: Postgres) -> None:
    """Neither does it fill the disk, with what it makes for its session alone."""
    with psycopg.connect(cluster.conninfo("twin_reader"), autocommit=True) as session:
        assert session.execute("SELECT count(*) FROM message").fetchone() == (0,)
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
