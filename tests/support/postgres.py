"""A real PostgreSQL with the twin's table, which can be killed and started again at the same port."""

import contextlib
import os
import pwd
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg

from support.parts import HOST, Child
from support.places import ROOT
from support.ports import free_port
from support.waiting import until
from support.wire import call

SCHEMA = ROOT / "compose/experiments/twin/postgres/schema.sql"
# It refuses to run as root.
USER = "postgres"


@contextlib.contextmanager
def open_folder() -> Iterator[Path]:
    """Yield a folder that servers with users of their own can reach; pytest closes its own to all others."""
    with tempfile.TemporaryDirectory(prefix="looplab-") as name:
        Path(name).chmod(0o777)
        yield Path(name)


def binaries() -> Path:
    """Return the newest PostgreSQL's programs."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    assert found, "PostgreSQL is not installed: ./lab test installs it"
    return found[-1]


class Postgres(Child):
    """A cluster in `folder`, with the roles of compose/experiments/twin and the password `test` for each."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.folder = folder
        self._bin = binaries()
        self._as = {"user": USER, "group": USER, "extra_groups": []} if os.geteuid() == 0 else {}
        if os.geteuid() == 0:
            user = pwd.getpwnam(USER)
            os.chown(folder, user.pw_uid, user.pw_gid)
        words = ["--auth=trust", "--no-sync", "--username=owner", "--encoding=UTF8", "--locale=C", "--wal-segsize=1"]
        self._run("initdb", f"--pgdata={self.data}", *words)
        self.start()
        where = [f"--host={HOST}", f"--port={self.port}", "--username=owner"]
        self._run("createdb", *where, "twin")
        settings = ("--set=ON_ERROR_STOP=1", "--set=writer=test", "--set=reader=test")
        self._run("psql", *where, "--dbname=twin", "--quiet", "--no-psqlrc", *settings, text=SCHEMA.read_text())

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def conninfo(self, user: str = "twin_writer") -> str:
        return f"host={HOST} port={self.port} dbname=twin user={user} password=test"

    def start(self) -> None:
        """Return once it answers."""
        options = [
            f"-k{self.folder}", f"-h{HOST}", f"-p{self.port}", "-cmax_connections=20", "-cshared_buffers=8MB",
            "-cmax_wal_size=4MB", "-cmin_wal_size=2MB", "-ctrack_wal_io_timing=on", "-crestart_after_crash=on",
        ]  # fmt: skip
        command = [str(self._bin / "postgres"), f"-D{self.data}", *options]
        super().__init__(command, self.folder / "log", cwd="/", **self._as)
        until(self.answers, f"PostgreSQL answers: {self.said()}")

    def answers(self) -> bool:
        try:
            with psycopg.connect(self.conninfo("owner").replace("=twin", "=postgres"), connect_timeout=2):
                return True
        except psycopg.Error:
            return False

    def kill(self) -> None:
        """As a crash: SIGKILL to the server and, by its absence, an end of every session."""
        super().kill()
        # Sessions end when they see that the server is gone.
        until(lambda: not self.answers(), "PostgreSQL is away")
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def recover(self, ballast: Path) -> None:
        """Give the disk its room back; a server that gave up starts again."""
        ballast.unlink()
        if self.process.poll() is not None:
            (self.data / "postmaster.pid").unlink(missing_ok=True)
            self.start()

    def ask(self, question: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.conninfo("owner"), autocommit=True) as session:
            return session.execute(question).fetchall()

    def do(self, statement: str) -> None:
        with psycopg.connect(self.conninfo("owner"), autocommit=True) as session:
            session.execute(statement)

    def close(self) -> None:
        """End every session, then the server."""
        if self.process.poll() is None:
            self.signal(signal.SIGINT)
            self.wait()

    def _run(self, program: str, *words: str, text: str = "") -> None:
        call(str(self._bin / program), *words, input=text, cwd="/", timeout_s=120, **self._as)
