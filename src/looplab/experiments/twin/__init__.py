"""The experiment twin: where the limit of a digital twin is, at the broker or where each message is stored."""

from collections.abc import Iterator
from typing import NamedTuple

from looplab.spec.cell import Paced
from looplab.spec.columns import Count, Figure, Key, Latency, Part, Text, Word
from looplab.spec.document import Document, each, rows
from looplab.spec.experiment import Experiment
from looplab.spec.roles import CONTROLLER, Role, Secret
from looplab.system.words import plural

NAME = "twin"
# A broker with persistence keeps one file for each of its ports.
BROKER = Role("broker", ("mosquitto",), files=("mosquitto/data/*/mosquitto.db",))
INSTANCE = Role("instance", ("lab-twin",))
WORKERS = Role("workers", ("lab-twin-store",), optional=True)
DATABASE = Role("database", ("postgres",))
_POSTGRES_UID = 999
# The passwords of the users of the database, and the token of device workers.
SECRETS = (
    Secret("database/owner", _POSTGRES_UID),
    Secret("database/writer", group=_POSTGRES_UID),
    Secret("database/reader", group=_POSTGRES_UID),
    Secret("device-workers", each_start=True),
)


class WriteMode(NamedTuple):
    """How the instance stores: its sleep after each message, the most rows of a commit, and the mode in words."""

    about: str
    sleep_ms: float = 0.0
    keeps_session: bool = True
    batch_rows: int = 1


# The group's public code sleeps 50 ms after each poll and opens a database session for each message.
PROTOTYPE, ROW = "prototype", "row"
WRITE_MODES = {
    PROTOTYPE: WriteMode("as the group's code: sleeps 50 ms, a session a message", 50.0, keeps_session=False),
    "sleep": WriteMode("one session kept, still sleeps", 50.0),
    "session": WriteMode("no sleep, still a session a message", keeps_session=False),
    ROW: WriteMode("neither cause, a commit a message"),
    "copy": WriteMode("neither cause, COPY of many messages", batch_rows=5000),
}
# The names of the limits in the terminal and in the report.
LIMITS = {
    "broker": "the broker's processor",
    "instance": "the instance's processor",
    "database": "the database's processor",
    "fsync": "the commit to disk",
    "inflight": "the window of unconfirmed messages",
    "device": "the device that sends",
    "machine": "the processors of the whole machine",
    "sleep": "the sleep of the instance's event loop",
    "session": "opening a database session",
    "tried": "the highest rate tried",
    "unknown": "not found",
}


class TwinCell(Paced):
    """One way of sending and storing; `placement` is where the brokers run. Repetitions are cells of their own."""

    received = "committed_ns"
    note = (
        "queue: longest, in messages; drain: s from last sent to last stored; S: from sent to stored, in ms; "
        "out/s: messages stored a second"
    )

    interval_ms = Key(float, "time between two messages", unit="ms", pace=True, heading="ms", default=10.0)
    brokers = Key(int, "how many brokers", default=1)
    placement = Key(str, "whether brokers share a machine (central) or have one each (distributed)", default="single")
    where = Text(
        lambda cell: f"{cell.brokers} {cell.placement[:7]}",
        "how many brokers, and whether they share a machine (central) or have one each (distributed)",
        heading="brokers",
    )
    write_mode = Key(str, "how the instance stores", heading="mode", default="prototype")
    qos = Key(int, "quality of service", heading="QoS", default=1)
    repetition = Key(int, "number of the repetition", default=0)
    sent = Count("messages that were sent", heading="sent", total=True)
    stored = Count("messages that were stored", outcome="stored", fates=("answered", "late"))
    lost = Count("messages that were never stored", heading="lost", outcome="lost")
    refused = Count("messages that the instance refused", heading="ref", outcome="refused", fates=("failed",))
    duplicates = Count("messages that were stored more than once")
    queue_max = Figure(
        "the most messages that were sent and not yet stored at one time",
        heading="queue",
        digits=0,
        pooled=max,
        live=True,
    )
    drained_s = Figure(
        "from the last message sent to the last one stored", unit="s", heading="drain", digits=1, live=True
    )
    rate_in_per_s = Figure("messages sent a second")
    rate_out_per_s = Figure(
        "messages stored a second; in twin-limit, at the highest rate that was sustained",
        heading="out/s",
        digits=1,
        live=True,
    )
    storage_delay = Latency(
        "from sent to stored",
        column="storage_delay_us",
        times=("sent_ns", "received_ns"),
        heading="S",
        table=("p99",),
        digits=1,
        decades=(-4, 2),
        live="S",
    )
    arrival_delay = Latency("from sent to its arrival", times=("sent_ns", "arrived_ns"))
    commit_delay = Latency("from its arrival to stored", times=("arrived_ns", "received_ns"))
    per_broker = Part(
        "for each broker `sent`, `stored`, `rate_out_per_s`, and `operation_s` from its first message to its last",
        rows(broker="count", sent="count", stored="count", rate_out_per_s="number", operation_s="number"),
    )
    limited_by = Word("what limits the rate; `tried`: nothing up to the highest rate tried")
    evidence = Part("how busy each possible limit was, as a share", each("number"))
    instance_s = Part(
        "what the instance's workers did: `sleep`, `session` (opening one), `store`",
        each("number"),
        unit="s",
    )
    cpu_share = Part(
        "processor time over time of each broker, the instance, the database and the controller; `machine`: of all "
        "processors",
        each("any"),
    )
    device_workers = Part(
        "of each worker on another machine its host, `sent`, `stored`, `start_error_us` (half of the round trip of the "
        "order to begin: the error of its times), and `fault`",
        rows(host="text", sent="count", stored="count", start_error_us="number", fault="text"),
    )
    limit_per_s = Figure("the highest rate that was sustained", digits=0)

    def __str__(self) -> str:
        """The cell in words, e.g. "10 ms, 2 brokers central, copy, QoS 1"."""
        again = f", repetition {self.repetition + 1}" if self.repetition else ""
        where = f"{plural(self.brokers, 'broker')} {self.placement}"
        return f"{self.interval_ms:g} ms, {where}, {self.write_mode}, QoS {self.qos}{again}"

    @property
    def searched(self) -> str:
        """What a search was about, e.g. "copy, QoS 1, 2 brokers"."""
        return f"{self.write_mode}, QoS {self.qos}, {plural(self.brokers, 'broker')}"

    @classmethod
    def remarks(cls, run: Document) -> Iterator[str]:
        limits = [cell for cell in map(cls, run["cells"]) if cell.limit_per_s is not None]
        if limits:
            yield from ("", "Highest sustained rate, and its limit:")
        for cell in limits:
            yield f"  {cell.searched}: {cell.limit_per_s:.0f} a second, {LIMITS.get(cell.limited_by, cell.limited_by)}"


# The one claim that compares two settings.
PERSISTENCE = "persistence-low-impact"

EXPERIMENT = Experiment(
    NAME,
    __name__,
    scenarios="compose/experiments/twin*",
    cell=TwinCell,
    roles=(CONTROLLER, BROKER, INSTANCE, WORKERS, DATABASE),
    studies={**{name: (name,) for name in (NAME, "twin-brokers", "twin-limit")}, PERSISTENCE: (NAME,)},
    variants={PERSISTENCE: {name: {"PERSISTENCE": name} for name in ("off", "on")}},
    secrets=SECRETS,
    kept=("twin-database",),
    host=True,
)
