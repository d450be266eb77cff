#!/usr/bin/env python3
"""Measure how many messages a second the twin's instance stores, beside what a user would write and what is possible.

One mosquitto, one PostgreSQL, one publisher at QoS 1 that sends prepared packets as fast as the broker takes them; by
turns:

    publish    nobody subscribes: publisher and broker alone
    discard    a subscriber that confirms all and keeps nothing
    copy, pipeline, row    a worker of the instance
    many, each    the usual script of a tutorial: paho and psycopg, executemany of 100 rows, or a commit a message
    many2, each2  the same with psycopg2, whose executemany waits for each row (--psycopg2)
    telegraf   its MQTT consumer and its PostgreSQL output, with batches as large as ours (--telegraf)
    flood      the lab's own flood, publisher and discarding subscriber in one process (--flood)
    raw        one COPY without MQTT

Prints messages a second from the first one sent to the last one stored (median, and each round), and the processor time
of each part for a message: a part that needs 20 us a message on one thread ends at 50 000 a second.

    PYTHONPATH=src:tests .venv/bin/python bench/twin_storage.py [--messages 60000] [--rounds 3]
        [--psycopg2 PYTHON] [--telegraf FILE] [--flood FILE]

PYTHON has paho-mqtt 2 and psycopg2; bench/telegraf.sh builds Telegraf; `docker cp` takes /flood from the lab's image.

With --steady RATE: so many a second on a schedule for --seconds, stored by copy: the delay from sent to stored, and the
worker's own memory (RssAnon, without the samples that it maps) in the first and in the last tenth of the time.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import select
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import NamedTuple

import psycopg
from support.parts import HOST, Broker, Child, python
from support.postgres import Postgres, open_folder

from looplab.experiments.twin.instance.orders import Counts, Order, end_order
from looplab.experiments.twin.message import payload, topic
from looplab.run.samples import WAITING, SampleStore
from looplab.system.processors import processor_times

TOKEN = "0123abcd"
# The broker numbers what a subscriber has not confirmed with 16 bits: more than 65 535 messages would share numbers.
WINDOW, CHUNK, BYTES, MOST = 20_000, 500, 64, 65_000
LIMIT_S = 120.0
# As by default (compose/experiments/twin/params.env).
BATCH_ROWS = 5000
# Ways that take a commit a message get so many times fewer messages.
SLOW = {"row": 20, "each": 20, "each2": 20}
TUTORIAL = """
import importlib
import sys
import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

port, conninfo, topic, together = int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
connection = importlib.import_module(sys.argv[5]).connect(conninfo)
waiting = []

def on_message(client, data, message):
    run, device, sequence, sent_ns, _ = message.payload.decode().split(",")
    waiting.append((run, int(device), int(sequence), int(sent_ns), 0, message.payload))
    if len(waiting) >= together:
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO message (run, device, sequence, sent_ns, arrived_ns, payload) "
                "VALUES (%s, %s, %s, %s, %s, %s)", waiting)
        connection.commit()
        waiting.clear()

client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id="tutorial")
client.on_connect = lambda client, *_: client.subscribe(topic, 1)
client.on_subscribe = lambda *_: print("ready", flush=True)
client.on_message = on_message
client.connect("127.0.0.1", port)
client.loop_forever()
"""


TELEGRAF = """
[agent]
  interval = "1s"
  flush_interval = "{flush}"
  metric_batch_size = {batch}
  metric_buffer_limit = 200000
  omit_hostname = true
[[inputs.mqtt_consumer]]
  servers = ["tcp://127.0.0.1:{port}"]
  topics = ["{topic}"]
  qos = 1
  max_undelivered_messages = {window}
  topic_tag = ""
  data_format = "csv"
  csv_column_names = ["run", "device", "sequence", "sent_ns", "celsius"]
  csv_trim_space = true
[[outputs.postgresql]]
  connection = "{database}"
  log_level = "warn"
"""
TABLE = "mqtt_consumer"


class Outcome(NamedTuple):
    """One round of a way: messages a second, processor time of each part in us a message, busy share of the machine."""

    rate: float
    cpu_us: Mapping[str, float]
    busy: float


class Bench:
    """The parts that all ways share."""

    def __init__(self, broker: Broker, postgres: Postgres, folder: Path, messages: int) -> None:
        self.broker, self.postgres, self.folder, self.messages = broker, postgres, folder, messages
        self.topic = topic(TOKEN, 0, "1")

    def publish(self) -> Outcome:
        """Return the rate at which the broker takes messages for which it has no subscriber."""
        return self._timed({}, lambda: True, self.messages)

    def _timed(self, parts: Mapping[str, int], done: Callable[[], bool], count: int) -> Outcome:
        """Publish; return the rate until `done`. `parts` are the processes beside publisher, broker and database."""
        chunks = list(self._packets())
        measured = {"publisher": os.getpid(), "broker": self.broker.pid, "database": self.postgres.pid, **parts}
        before, idle_s = {part: _cpu_s(pid) for part, pid in measured.items()}, _idle_s()
        begun_s = time.perf_counter()
        self._send(chunks)
        while not done():
            if time.perf_counter() - begun_s > LIMIT_S:
                sys.exit(f"not done after {LIMIT_S:.0f} s")
            time.sleep(0.002)
        seconds = time.perf_counter() - begun_s
        cpu_us = {part: (_cpu_s(pid) - before[part]) / count * 1e6 for part, pid in measured.items()}
        return Outcome(count / seconds, cpu_us, 1 - (_idle_s() - idle_s) / seconds / len(processor_times()))

    def _packets(self) -> Iterator[bytes]:
        """Yield the packets of CHUNK messages at a time."""
        name = self.topic.encode()
        for first in range(0, self.messages, CHUNK):
            yield b"".join(self._packet(name, row) for row in range(first, first + CHUNK))

    def _send(self, chunks: list[bytes]) -> None:
        """Send every message, at most WINDOW of them unconfirmed."""
        with self._connected(b"blast") as sock:
            confirmed = 0.0
            for at, chunk in enumerate([*chunks, b""]):
                while at * CHUNK - confirmed > (WINDOW if chunk else 0):
                    # Not for each confirmation: the publisher's processor time is taken from the others.
                    time.sleep(0.002)
                    confirmed += len(sock.recv(1 << 18)) / 4
                sock.sendall(chunk)

    def _connected(self, client: bytes) -> socket.socket:
        """Return a socket on which the broker has accepted `client`, a name of five letters."""
        sock = socket.create_connection((HOST, self.broker.port))
        sock.sendall(b"\x10\x11\x00\x04MQTT\x04\x02\x00\x00\x00\x05" + client)
        assert sock.recv(4) == b"\x20\x02\x00\x00"
        return sock

    def _packet(self, name: bytes, row: int) -> bytes:
        data = payload(TOKEN.encode(), 1, row, time.perf_counter_ns(), BYTES)
        body = len(name).to_bytes(2, "big") + name + (row % 65535 + 1).to_bytes(2, "big") + data
        assert len(body) < 128
        return b"\x32" + bytes((len(body),)) + body

    def discard(self) -> Outcome:
        """Return the rate of a subscriber that confirms all and keeps nothing."""
        ready, done = multiprocessing.Event(), multiprocessing.Event()
        subscriber = multiprocessing.Process(target=self._throw_away, args=(ready, done))
        subscriber.start()
        assert subscriber.pid is not None
        ready.wait(LIMIT_S)
        outcome = self._timed({"subscriber": subscriber.pid}, done.is_set, self.messages)
        subscriber.kill()
        subscriber.join()
        return outcome

    def _throw_away(self, ready: Event, done: Event) -> None:
        """Confirm every message. All packets have one length: none needs to be parsed."""
        name = self.topic.encode()
        size, at = len(self._packet(name, 0)), 4 + len(name)
        with self._connected(b"sinks") as sock:
            sock.sendall(bytes((0x82, 5 + len(name), 0, 1, 0, len(name))) + name + b"\x01")
            assert sock.recv(5)[:1] == b"\x90"
            ready.set()
            seen, rest = 0, b""
            while seen < self.messages:
                rest += sock.recv(1 << 18)
                whole = len(rest) // size
                ids = [rest[start + at : start + at + 2] for start in range(0, whole * size, size)]
                sock.sendall(b"".join(b"\x40\x02" + number for number in ids))
                seen, rest = seen + whole, rest[whole * size :]
            done.set()
            # Its processor time is read before it ends.
            time.sleep(LIMIT_S)

    def flood(self, program: Path) -> Outcome:
        """Return the rate of the lab's flood: four clients, each with 100 messages unconfirmed."""
        count = str(self.messages // 4)
        words = ["-broker", f"tcp://{HOST}:{self.broker.port}", "-num-clients", "4", "-num-messages", count]
        words += ["-publisher-qos", "1", "-subscriber-qos", "1", "-min-msg-chars", str(BYTES), "-max-msg-chars"]
        before, used_s, idle_s = _cpu_s(self.broker.pid), _children_s(), _idle_s()
        begun_s = time.perf_counter()
        done = subprocess.run([str(program), *words, str(BYTES)], stdout=subprocess.PIPE, text=True, check=True)
        busy = 1 - (_idle_s() - idle_s) / (time.perf_counter() - begun_s) / len(processor_times())
        found = json.loads(done.stdout.splitlines()[-1])
        assert found["received"] == self.messages, found
        spent_s = {"broker": _cpu_s(self.broker.pid) - before, "flood": _children_s() - used_s}
        cpu_us = {part: seconds / self.messages * 1e6 for part, seconds in spent_s.items()}
        return Outcome(found["received"] / found["seconds"], cpu_us, busy)

    def worker(self, mode: str) -> Outcome:
        """Return the rate of a worker of the instance."""
        _store, child = self._worker(mode)
        counts = Counts(self.folder)
        try:
            return self._timed({"worker": child.pid}, lambda: counts.row(0)[2] >= self.messages, self.messages)
        finally:
            child.close()
            end_order(self.folder)

    def _worker(self, mode: str) -> tuple[SampleStore, Child]:
        """Return a worker that is ready, and its samples."""
        store = SampleStore(self.messages, self.folder / "samples.bin", ("copies",))
        for row in range(self.messages):
            store["state"][row] = WAITING
        counts = Counts(self.folder)
        counts.clear()
        brokers: list[list[object]] = [[HOST, self.broker.port]]
        batch = 1 if mode == "row" else BATCH_ROWS
        Order(TOKEN, 0, 0, self.messages - 1, brokers, 1, mode, 0.0, "kept", batch, 10.0, True).write(self.folder)
        command = [*python("looplab.experiments.twin.instance.worker"), str(self.folder), "0"]
        child = Child(command, self.folder / "worker.log", {"DATABASE": self.postgres.conninfo()})
        _until(lambda: counts.row(0)[0] == 1, child)
        return store, child

    def tutorial(self, together: int, interpreter: str, driver: str) -> Outcome:
        """Return the rate of the usual script."""
        words = [str(self.broker.port), self.postgres.conninfo(), self.topic, str(together), driver]
        whole = self.messages // together * together
        last = f"SELECT 1 FROM message WHERE run = '{TOKEN}' AND device = 1 AND sequence = {whole - 1}"
        with (
            subprocess.Popen([interpreter, "-c", TUTORIAL, *words], stdout=subprocess.PIPE, text=True) as script,
            psycopg.connect(self.postgres.conninfo("owner"), autocommit=True) as session,
        ):
            assert script.stdout is not None
            assert script.stdout.readline() == "ready\n"
            outcome = self._timed({"script": script.pid}, lambda: bool(session.execute(last).fetchall()), whole)  # type: ignore[arg-type]
            script.terminate()
        return outcome

    def telegraf(self, program: Path) -> Outcome:
        """Return the rate of Telegraf."""
        self.postgres.do(f"DROP TABLE IF EXISTS {TABLE}")
        database = f"host={HOST} port={self.postgres.port} dbname=twin user=owner sslmode=disable"
        settings = self.folder / "telegraf.conf"
        settings.write_text(
            TELEGRAF.format(
                port=self.broker.port, topic=self.topic, batch=BATCH_ROWS, window=WINDOW, database=database,
                flush="100ms",
            )
        )  # fmt: skip
        log = self.folder / "telegraf.log"
        log.unlink(missing_ok=True)
        child = Child([str(program), "--config", str(settings)], log)
        try:
            _until(lambda: "Connected" in child.said(), child)
            with psycopg.connect(self.postgres.conninfo("owner"), autocommit=True) as session:
                # It writes batches side by side: the last one sent need not be the last one stored.
                return self._timed({"telegraf": child.pid}, lambda: _stored(session) >= self.messages, self.messages)
        finally:
            child.close()

    def steady(self, rate: int, seconds: float) -> str:
        """Send `rate` a second on a schedule; return what the delays and the worker's memory were, in words."""
        self.messages = round(rate * seconds)
        store, child = self._worker("copy")
        memory: list[tuple[float, float]] = []
        try:
            self._send_steadily(store, rate, lambda at_s: memory.append((at_s, _own_mb(child.pid))))
            _until(lambda: Counts(self.folder).row(0)[2] >= self.messages, child)
        finally:
            child.close()
            end_order(self.folder)
        pairs = zip(store["sent_ns"], store["received_ns"], strict=True)
        delays = sorted((stored - sent) / 1e6 for sent, stored in pairs)
        p50, p99 = (delays[int(len(delays) * share)] for share in (0.5, 0.99))
        first = [mb for at_s, mb in memory if seconds / 20 < at_s < seconds * 3 / 20]
        last = [mb for at_s, mb in memory if at_s > seconds * 0.9]
        return (
            f"{rate} a second for {seconds:g} s: delay p50 {p50:.1f}, p99 {p99:.1f}, longest {delays[-1]:.1f} ms; "
            f"own memory {min(first):.1f} to {max(first):.1f} MB first, {min(last):.1f} to {max(last):.1f} MB last"
        )

    def _send_steadily(self, store: SampleStore, rate: int, every: Callable[[float], None]) -> None:
        """Send each message when it is due, at most a millisecond late; call `every` once a second."""
        name = self.topic.encode()
        with self._connected(b"blast") as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            begun_s, row, told = time.perf_counter(), 0, 0
            while row < self.messages:
                at_s = time.perf_counter() - begun_s
                due = min(self.messages, int(at_s * rate))
                for number in range(row, due):
                    store["sent_ns"][number] = time.perf_counter_ns()
                if due > row:
                    sock.sendall(b"".join(self._packet(name, number) for number in range(row, due)))
                row = due
                if int(at_s) > told:
                    told = int(at_s)
                    every(at_s)
                # Confirmations are read and not looked at.
                if select.select([sock], [], [], 0)[0]:
                    sock.recv(65536)
                time.sleep(0.001)
            self._linger(sock)

    @staticmethod
    def _linger(sock: socket.socket) -> None:
        """Read what still comes, so that the connection does not end by a reset."""
        while select.select([sock], [], [], 0.5)[0]:
            if not sock.recv(65536):
                return

    def raw(self) -> Outcome:
        """Return the rate of one COPY without MQTT."""
        data = [payload(TOKEN.encode(), 1, row, 0, BYTES).hex() for row in range(self.messages)]
        lines = "".join(f"{TOKEN}\t1\t{row}\t0\t0\t\\\\x{text}\n" for row, text in enumerate(data))
        before, idle_s = _cpu_s(self.postgres.pid), _idle_s()
        with psycopg.connect(self.postgres.conninfo("owner"), autocommit=True) as session, session.cursor() as cursor:
            begun_s = time.perf_counter()
            with cursor.copy("COPY message (run, device, sequence, sent_ns, arrived_ns, payload) FROM STDIN") as copy:
                copy.write(lines)
            seconds = time.perf_counter() - begun_s
            busy = 1 - (_idle_s() - idle_s) / seconds / len(processor_times())
            database_us = (_cpu_s(self.postgres.pid) - before) / self.messages * 1e6
        return Outcome(self.messages / seconds, {"database": database_us}, busy)


def _stored(session: "psycopg.Connection[tuple[object, ...]]") -> int:
    """Return how many rows Telegraf's table has; asked seldom, because counting takes the database's time."""
    time.sleep(0.1)
    try:
        found = session.execute(f"SELECT count(*) FROM {TABLE}").fetchone()  # type: ignore[arg-type]
    except psycopg.errors.UndefinedTable:
        # Telegraf makes it for its first batch.
        return 0
    assert found is not None
    return int(str(found[0]))


def _cpu_s(pid: int) -> float:
    """Return the processor time of a process and of all its children, in ticks of 10 ms."""
    root = Path(f"/proc/{pid}")
    fields = (root / "stat").read_text().rpartition(")")[2].split()
    own_s = sum(int(ticks) for ticks in fields[11:15]) / os.sysconf("SC_CLK_TCK")
    if pid == os.getpid():
        return time.process_time()
    return own_s + sum(_cpu_s(int(child)) for child in (root / f"task/{pid}/children").read_text().split())


def _children_s() -> float:
    """Return the processor time of the children that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def _idle_s() -> float:
    return sum(times["idle_s"] for times in processor_times().values())


def _own_mb(pid: int) -> float:
    """Return the memory that a process shares with none."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon:"))


def _until(ready: Callable[[], bool], child: Child) -> None:
    end_s = time.monotonic() + LIMIT_S
    while not ready():
        if time.monotonic() > end_s or child.process.poll() is not None:
            sys.exit(f"not ready: {child.said()}")
        time.sleep(0.002)


@contextlib.contextmanager
def parts(messages: int) -> Iterator[Bench]:
    """Yield the bench with a broker and a database that end with it."""
    with open_folder() as data, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = "allow_anonymous true\nmax_queued_messages 0\nmax_inflight_messages 0\n"
        broker = Broker(folder, more=text)
        postgres = Postgres(data, "-cshared_buffers=64MB", "-cmax_wal_size=1GB")
        try:
            yield Bench(broker, postgres, folder, messages)
        finally:
            postgres.close()
            broker.stop()


def main() -> int:
    """Measure by turns, print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--messages", type=int, default=60_000)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--ways", default="", help="default: all for which there is a program")
    options.add_argument("--psycopg2", metavar="PYTHON")
    options.add_argument("--telegraf", type=Path, metavar="FILE")
    options.add_argument("--flood", type=Path, metavar="FILE")
    options.add_argument("--steady", type=int, metavar="RATE")
    options.add_argument("--seconds", type=float, default=30.0)
    given = options.parse_args()
    if given.messages > MOST:
        options.error(f"--messages: at most {MOST}")
    found: dict[str, list[Outcome]] = {}
    with parts(given.messages) as bench:
        if given.steady:
            print(f"load {os.getloadavg()[0]:.1f}; {bench.steady(given.steady, given.seconds)}")
            return 0
        known = ways(bench, given)
        for _ in range(given.rounds):
            for way in given.ways.split(",") if given.ways else known:
                bench.postgres.do("TRUNCATE message")
                bench.messages = given.messages // SLOW.get(way, 1) // CHUNK * CHUNK
                found.setdefault(way, []).append(known[way]())
    print(f"load {os.getloadavg()[0]:.1f}; {given.messages} messages of {BYTES} bytes, QoS 1, a second:")
    for way, outcomes in found.items():
        show(way, outcomes)
    return 0


def ways(bench: Bench, given: argparse.Namespace) -> dict[str, Callable[[], Outcome]]:
    """Return every way for which there is a program, in their order."""
    known: dict[str, Callable[[], Outcome]] = {"publish": bench.publish, "discard": bench.discard}
    if given.flood:
        known["flood"] = lambda: bench.flood(given.flood)
    known |= {mode: lambda mode=mode: bench.worker(mode) for mode in ("copy", "pipeline", "row")}
    known |= {"many": lambda: bench.tutorial(100, sys.executable, "psycopg")}
    known |= {"each": lambda: bench.tutorial(1, sys.executable, "psycopg")}
    if given.psycopg2:
        known["many2"] = lambda: bench.tutorial(100, given.psycopg2, "psycopg2")
        known["each2"] = lambda: bench.tutorial(1, given.psycopg2, "psycopg2")
    if given.telegraf:
        known["telegraf"] = lambda: bench.telegraf(given.telegraf)
    return {**known, "raw": bench.raw}


def show(way: str, outcomes: list[Outcome]) -> None:
    """Print a way's line: rates, then the median of each part's processor time."""
    rates = " ".join(f"{one.rate:.0f}" for one in outcomes)
    spent = {part: statistics.median(one.cpu_us[part] for one in outcomes) for part in outcomes[0].cpu_us}
    said = ", ".join(f"{part} {us:.1f}" for part, us in spent.items() if us >= 0.05)
    busy = statistics.median(one.busy for one in outcomes)
    print(f"  {way:<9} {statistics.median(one.rate for one in outcomes):>8.0f}   rounds {rates}")
    print(f"  {'':<9} us a message: {said}; processors {busy:.0%} busy")


if __name__ == "__main__":
    sys.exit(main())
