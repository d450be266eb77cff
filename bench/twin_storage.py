#!/usr/bin/env python3
"""Measure how many messages a second the twin's instance stores, beside what a user would write and what is possible.

One mosquitto, one PostgreSQL, one publisher at QoS 1 that sends as fast as the broker takes it; by turns:
discard (a subscriber that confirms all and keeps nothing), copy, pipeline and row (a worker of the instance), many and
each (the usual tutorial script: paho and psycopg, executemany of 100 rows, or a commit a message), telegraf (its MQTT
consumer and its PostgreSQL output, with batches as large as ours; built by bench/telegraf.sh), raw (COPY without MQTT).
Prints messages a second from the first one sent to the last one stored: the median of the rounds, and each round.

    PYTHONPATH=src:tests .venv/bin/python bench/twin_storage.py [--messages 20000] [--rounds 3] [--telegraf FILE]

With --steady RATE: so many a second on a schedule for --seconds, stored by copy: the delay from sent to stored, and the
worker's own memory (RssAnon, without the samples that it maps) in the first and in the last tenth of the time.
"""

import argparse
import contextlib
import multiprocessing
import os
import select
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from multiprocessing.synchronize import Event
from pathlib import Path

import psycopg
from support.parts import HOST, Broker, Child, python
from support.postgres import Postgres, open_folder

from looplab.experiments.twin.instance.orders import Counts, Order, end_order
from looplab.experiments.twin.message import payload, topic
from looplab.run.samples import WAITING, SampleStore

TOKEN = "0123abcd"
WINDOW, CHUNK, BYTES = 20_000, 500, 64
LIMIT_S = 120.0
# As by default (compose/experiments/twin/params.env).
BATCH_ROWS = 5000
TUTORIAL = """
import sys
import paho.mqtt.client as mqtt
import psycopg
from paho.mqtt.enums import CallbackAPIVersion

port, conninfo, topic, together = int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
connection = psycopg.connect(conninfo)
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


class Bench:
    """The parts that all ways share."""

    def __init__(self, broker: Broker, postgres: Postgres, folder: Path, messages: int) -> None:
        self.broker, self.postgres, self.folder, self.messages = broker, postgres, folder, messages
        self.topic = topic(TOKEN, 0, "1")

    def publish(self) -> None:
        """Send every message, at most WINDOW of them unconfirmed."""
        name = self.topic.encode()
        with socket.create_connection((HOST, self.broker.port)) as sock:
            sock.sendall(b"\x10\x11\x00\x04MQTT\x04\x02\x00\x00\x00\x05blast")
            assert sock.recv(4) == b"\x20\x02\x00\x00"
            confirmed = 0.0
            for first in range(0, self.messages, CHUNK):
                rows = range(first, min(first + CHUNK, self.messages))
                sock.sendall(b"".join(self._packet(name, row) for row in rows))
                while rows.stop - confirmed > WINDOW:
                    confirmed += len(sock.recv(65536)) / 4
            while confirmed < self.messages:
                confirmed += len(sock.recv(65536)) / 4

    def _packet(self, name: bytes, row: int) -> bytes:
        data = payload(TOKEN.encode(), 1, row, time.perf_counter_ns(), BYTES)
        body = len(name).to_bytes(2, "big") + name + (row % 65535 + 1).to_bytes(2, "big") + data
        assert len(body) < 128
        return b"\x32" + bytes((len(body),)) + body

    def discard(self) -> float:
        """Return the rate of a subscriber that confirms all and keeps nothing."""
        ready, done = multiprocessing.Event(), multiprocessing.Event()
        subscriber = multiprocessing.Process(target=self._throw_away, args=(ready, done))
        subscriber.start()
        ready.wait(LIMIT_S)
        begun_s = time.perf_counter()
        self.publish()
        done.wait(LIMIT_S)
        rate = self.messages / (time.perf_counter() - begun_s)
        subscriber.join()
        return rate

    def _throw_away(self, ready: Event, done: Event) -> None:
        """Confirm every message. All packets have one length: none needs to be parsed."""
        name = self.topic.encode()
        size, at = len(self._packet(name, 0)), 4 + len(name)
        with socket.create_connection((HOST, self.broker.port)) as sock:
            sock.sendall(b"\x10\x11\x00\x04MQTT\x04\x02\x00\x00\x00\x05sinks")
            assert sock.recv(4) == b"\x20\x02\x00\x00"
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

    def worker(self, mode: str) -> float:
        """Return the rate of a worker of the instance."""
        _store, child = self._worker(mode)
        counts = Counts(self.folder)
        try:
            begun_s = time.perf_counter()
            self.publish()
            _until(lambda: counts.row(0)[2] >= self.messages, child)
            return self.messages / (time.perf_counter() - begun_s)
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

    def tutorial(self, together: int) -> float:
        """Return the rate of the usual script."""
        words = [str(self.broker.port), self.postgres.conninfo(), self.topic, str(together)]
        with subprocess.Popen([sys.executable, "-c", TUTORIAL, *words], stdout=subprocess.PIPE, text=True) as script:
            assert script.stdout is not None
            assert script.stdout.readline() == "ready\n"
            begun_s = time.perf_counter()
            self.publish()
            whole = self.messages // together * together
            with psycopg.connect(self.postgres.conninfo("owner"), autocommit=True) as session:
                while _count(session) < whole:
                    time.sleep(0.05)
            rate = whole / (time.perf_counter() - begun_s)
            script.terminate()
        return rate

    def telegraf(self, program: Path) -> float:
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
            begun_s = time.perf_counter()
            self.publish()
            with psycopg.connect(self.postgres.conninfo("owner"), autocommit=True) as session:
                while _count(session, TABLE) < self.messages:
                    if time.perf_counter() - begun_s > LIMIT_S:
                        sys.exit(f"Telegraf stored {_count(session, TABLE)}: {child.said()}")
                    time.sleep(0.05)
            return self.messages / (time.perf_counter() - begun_s)
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
        with socket.create_connection((HOST, self.broker.port)) as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.sendall(b"\x10\x11\x00\x04MQTT\x04\x02\x00\x00\x00\x05blast")
            assert sock.recv(4) == b"\x20\x02\x00\x00"
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

    def raw(self) -> float:
        """Return the rate of one COPY without MQTT."""
        data = [payload(TOKEN.encode(), 1, row, 0, BYTES).hex() for row in range(self.messages)]
        lines = [f"{TOKEN}\t1\t{row}\t0\t0\t\\\\x{text}\n" for row, text in enumerate(data)]
        with psycopg.connect(self.postgres.conninfo("owner"), autocommit=True) as session, session.cursor() as cursor:
            begun_s = time.perf_counter()
            with cursor.copy("COPY message (run, device, sequence, sent_ns, arrived_ns, payload) FROM STDIN") as copy:
                copy.write("".join(lines))
            return self.messages / (time.perf_counter() - begun_s)


def _count(session: "psycopg.Connection[tuple[object, ...]]", table: str = "message") -> int:
    try:
        found = session.execute(f"SELECT count(*) FROM {table}").fetchone()  # type: ignore[arg-type]
    except psycopg.errors.UndefinedTable:
        # Telegraf makes it for its first batch.
        return 0
    assert found is not None
    return int(str(found[0]))


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
    options.add_argument("--messages", type=int, default=20_000)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--ways", default="", help="default: all")
    options.add_argument("--telegraf", type=Path, metavar="FILE")
    options.add_argument("--steady", type=int, metavar="RATE")
    options.add_argument("--seconds", type=float, default=30.0)
    given = options.parse_args()
    ways = "discard,copy,pipeline,row,many,each,raw" + (",telegraf" if given.telegraf else "")
    rates: dict[str, list[float]] = {}
    with parts(given.messages) as bench:
        if given.steady:
            print(f"load {os.getloadavg()[0]:.1f}; {bench.steady(given.steady, given.seconds)}")
            return 0
        for _ in range(given.rounds):
            for way in (given.ways or ways).split(","):
                bench.postgres.do("TRUNCATE message")
                slow = way in ("row", "each")
                bench.messages = given.messages // 10 if slow else given.messages
                call = {
                    "discard": bench.discard,
                    "raw": bench.raw,
                    "many": lambda: bench.tutorial(100),
                    "each": lambda: bench.tutorial(1),
                    "telegraf": lambda: bench.telegraf(given.telegraf),
                }
                rates.setdefault(way, []).append(call[way]() if way in call else bench.worker(way))
    print(f"load {os.getloadavg()[0]:.1f}; {given.messages} messages of {BYTES} bytes, QoS 1, a second:")
    for way, found in rates.items():
        print(f"  {way:<9} {statistics.median(found):>8.0f}   rounds {' '.join(f'{rate:.0f}' for rate in found)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
