"""How messages reach PostgreSQL: a row or a COPY at a time; each commit is confirmed before it returns."""

from collections.abc import Mapping, Sequence
from time import perf_counter_ns
from typing import Any, NamedTuple

import psycopg
from psycopg.errors import UniqueViolation

from looplab.experiments.twin import WriteMode
from looplab.system.json_client import read_token

COLUMNS = "run, device, sequence, sent_ns, arrived_ns, payload"
_INSERT = f"INSERT INTO message ({COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING"
_COPY = f"COPY message ({COLUMNS}) FROM STDIN"
CONNECT_TIMEOUT_S = 2
# A statement fails after this time if the database has vanished.
STATEMENT_TIMEOUT_MS = 10_000


def conninfo(environment: Mapping[str, str], role: str) -> str:
    """Return libpq's connection string: DATABASE, else that of the user with this role in the lab's own database."""
    if given := environment.get("DATABASE"):
        return given
    user, password = f"twin_{role}", read_token(f"database/{role}")
    return f"host=twin-database dbname=twin user={user} password={password} application_name={user}"


class MessageRow(NamedTuple):
    """One line of the table `message`, and the id that confirms it; times in ns of this machine's monotonic clock."""

    run: str
    device: int
    sequence: int
    sent_ns: int
    arrived_ns: int
    payload: bytes
    message_id: bytes


def open_session(conninfo: str) -> psycopg.Connection[Any]:
    """Return a new session, in which each statement is committed by itself. Raises psycopg.Error."""
    timeout = f"-c statement_timeout={STATEMENT_TIMEOUT_MS}"
    return psycopg.connect(conninfo, autocommit=True, connect_timeout=CONNECT_TIMEOUT_S, options=timeout)


class Store:
    """Writes rows in one of the write modes; its session is opened when it is needed, and again where it was lost.

    `session_ns` adds up the time for opening and closing it, `store_ns` that for writing and committing.
    """

    def __init__(self, conninfo: str, mode: WriteMode) -> None:
        self.session_ns = self.store_ns = 0
        self._conninfo = conninfo
        self._connection: psycopg.Connection[Any] | None = None
        self._keeps = mode.keeps_session
        self._write = _copy if mode.batch_rows > 1 else _rows

    def _session(self) -> psycopg.Connection[Any]:
        if self._connection is None or self._connection.closed:
            begun_ns = perf_counter_ns()
            self._connection = open_session(self._conninfo)
            self.session_ns += perf_counter_ns() - begun_ns
        return self._connection

    def close(self) -> None:
        begun_ns = perf_counter_ns()
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        self.session_ns += perf_counter_ns() - begun_ns

    def write(self, rows: Sequence[MessageRow]) -> list[bool]:
        """Commit `rows`; return for each whether it is new, False where the table had it.

        Raises psycopg.Error if the database does not confirm: then any of the rows may be in the table or not.
        """
        connection = self._session()
        begun_ns = perf_counter_ns()
        try:
            new = self._write(connection, rows)
        except psycopg.Error:
            self.close()
            raise
        self.store_ns += perf_counter_ns() - begun_ns
        if not self._keeps:
            self.close()
        return new

    def check(self) -> None:
        """Raise psycopg.Error unless the database answers."""
        self._session().execute("SELECT 1")


def _rows(connection: psycopg.Connection[Any], rows: Sequence[MessageRow]) -> list[bool]:
    """Insert one row after another; each is committed by itself outside a transaction."""
    return [connection.execute(_INSERT, row[:-1]).rowcount == 1 for row in rows]


def _copy(connection: psycopg.Connection[Any], rows: Sequence[MessageRow]) -> list[bool]:
    """Copy all rows; where the table has one of them, insert those that are new."""
    try:
        with connection.cursor() as cursor, cursor.copy(_COPY) as copy:
            for row in rows:
                copy.write_row(row[:-1])
    except UniqueViolation:
        with connection.transaction():
            return _rows(connection, rows)
    return [True] * len(rows)
