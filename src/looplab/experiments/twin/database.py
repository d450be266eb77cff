"""What the controller asks the database: which messages are in the table, and what their commits cost."""

import time
from typing import Any, NamedTuple

import psycopg

from looplab.errors import MachineError
from looplab.experiments.twin.instance.store import open_session

_STORED = "SELECT sequence FROM message WHERE run = %s AND sequence BETWEEN %s AND %s"
# PostgreSQL 14 to 17 counts these for the whole server, times in ms.
_COST = "SELECT wal_sync, wal_sync_time FROM pg_stat_wal"
_FACTS = (
    "SELECT current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit'), "
    "extract(epoch FROM pg_postmaster_start_time())::text"
)


class CommitCost(NamedTuple):
    """What writing the log to disk took since the server's start."""

    syncs: int
    sync_ms: float


class DatabaseFacts(NamedTuple):
    """The server's version and settings that decide what a commit promises; `started` distinguishes its restarts."""

    version: str
    fsync: str
    synchronous_commit: str
    started: str


class Database:
    """Answers the controller as a user that only reads, each question in a session of its own.

    `conninfo` is libpq's.
    """

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo

    def check(self) -> None:
        """Raise LabError (exit code 3) unless the database answers and has the table."""
        self._rows("SELECT 1 FROM message LIMIT 1", patience_s=0)

    def stored(self, token: str, rows: range) -> set[int]:
        """Return the sequences of a run's `rows` that are in the table. Raises LabError if the database is away."""
        return {int(row[0]) for row in self._rows(_STORED, (token, rows.start, rows.stop - 1))}

    def cost(self) -> CommitCost:
        """Return what commits have cost so far. Raises LabError if the database is away."""
        return CommitCost(*self._rows(_COST)[0])

    def facts(self) -> DatabaseFacts:
        """Return version and settings. Raises LabError if the database is away."""
        return DatabaseFacts(*map(str, self._rows(_FACTS)[0]))

    def _rows(self, question: str, values: tuple[object, ...] = (), patience_s: float = 30.0) -> list[tuple[Any, ...]]:
        """Return the answer; a database that restarts is waited for."""
        end_s = time.monotonic() + patience_s
        while True:
            try:
                with open_session(self._conninfo) as session:
                    return session.execute(question, values).fetchall()
            except psycopg.Error as error:
                if time.monotonic() > end_s:
                    remedy = "See `docker compose logs twin-database`."
                    raise MachineError(f"The database does not answer: {error}", remedy) from error
                time.sleep(0.2)
