"""One worker of the instance: the messages of one broker, each stored and stamped, then confirmed to the broker."""

import gc
import os
import time
from collections import deque
from pathlib import Path
from threading import Event
from time import perf_counter_ns

import psycopg

from looplab.experiments.twin import WRITE_MODES
from looplab.experiments.twin.instance.orders import Order, WorkerCount, WorkerCounts
from looplab.experiments.twin.instance.store import MessageRow, Store
from looplab.experiments.twin.message import MOST_BYTES, parse, topic
from looplab.mqtt.client import ClientOptions, MqttClient
from looplab.mqtt.dial import Target
from looplab.run.samples import ANSWERED, FAILED, WAITING, SharedSamples
from looplab.system import own_process

PROCESS_NAME = "lab-twin-store"
# The worker checks this often whether it shall end.
LOOK_NS = 50_000_000
# The first message of a batch waits this long for others.
BATCH_NS = 10_000_000
# A failed batch is tried again after this time.
RETRY_S = 0.2
# A subscription with this prefix is shared by several workers.
SHARED = "$share/twin/"


class StoreWorker:
    """Takes what broker `number` of `order` sends; on_message only queues, and nothing is confirmed before its commit.

    A message that the database does not take is kept and tried again until the worker ends.
    """

    def __init__(self, order: Order, number: int, conninfo: str, samples: SharedSamples, counts: memoryview) -> None:
        topics = topic(order.token, order.cell, "+")
        host, port = order.brokers[number % len(order.brokers)]
        self._order, self._counts = order, counts
        self._token = order.token.encode()
        self._state, self._arrived = samples["state"], samples["arrived_ns"]
        self._received, self._copies = samples["received_ns"], samples["copies"]
        self._mode = WRITE_MODES[order.write_mode]
        self._store = Store(conninfo, self._mode)
        self._queue: deque[MessageRow] = deque()
        # The identifiers of messages that are stored, or need no storing, and are not confirmed yet.
        self._done: list[bytes] = []
        self._client = MqttClient(
            Target(host, port, order.tcp_nodelay),
            f"twin-{order.token}-{order.cell}-{number}",
            ClientOptions(
                [(SHARED * (order.workers > 1) + topics, order.qos)], max_inflight=0, persistent=True, holds=True
            ),
            self._take,
        )

    def run(self, stop: Event) -> None:
        """Store until `stop` is set."""
        counts, mode = self._counts, self._mode
        counts[WorkerCount.STARTS] += 1
        while not stop.is_set():
            if not self._queue:
                self._client.wait(perf_counter_ns() + LOOK_NS, ())
                self._keep_up()
                continue
            self._gather()
            self._write([self._queue.popleft() for _ in range(min(mode.batch_rows, len(self._queue)))], stop)
            self._confirm()
            if mode.sleep_ms:
                # The event loop of the prototype sleeps after each message.
                time.sleep(mode.sleep_ms / 1000)
                counts[WorkerCount.SLEEP_NS] += round(mode.sleep_ms * 1e6)
            self._client.wait(0)
        self._store.close()
        # The order may end with the last message, before the worker had a moment to keep up.
        counts[WorkerCount.DISCONNECTS] = self._client.disconnects
        self._client.close()

    def _take(self, _topic: bytes, payload: bytes, _qos: int) -> None:
        """Queue a message of this cell; its first instruction is the time."""
        now = perf_counter_ns()
        counts, order = self._counts, self._order
        message = parse(self._token, payload)
        if message is None or not order.first <= message.sequence <= order.last:
            counts[WorkerCount.MALFORMED] += 1
        elif len(payload) > MOST_BYTES:
            if self._state[message.sequence] == WAITING:
                self._arrived[message.sequence], self._state[message.sequence] = now, FAILED
        else:
            self._queue.append(MessageRow(order.token, *message, now, payload, self._client.message_id))
            counts[WorkerCount.UNACKNOWLEDGED_MAX] = max(counts[WorkerCount.UNACKNOWLEDGED_MAX], len(self._queue))
            return
        self._done.append(self._client.message_id)

    def _gather(self) -> None:
        """Wait until a batch is full or its first message is old enough."""
        end_ns = self._queue[0].arrived_ns + BATCH_NS
        while len(self._queue) < self._mode.batch_rows and perf_counter_ns() < end_ns:
            self._client.wait(end_ns, ())

    def _write(self, rows: list[MessageRow], stop: Event) -> None:
        """Commit a batch and stamp its rows; try until the database takes it or `stop` is set."""
        again = False
        while True:
            try:
                fresh = self._store.write(rows)
                break
            except psycopg.Error as error:
                self._counts[WorkerCount.DATABASE_ERRORS] += 1
                print(f"The database did not take {len(rows)} messages: {str(error).strip()}", flush=True)
                again = True
                if stop.wait(RETRY_S):
                    return
                self._client.wait(0)
        self._stamp(rows, fresh, again)
        self._done += [row.message_id for row in rows]

    def _stamp(self, rows: list[MessageRow], fresh: list[bool], again: bool) -> None:
        """Note when each row was committed, in the samples that the controller and the exporter read.

        A row that the table had: a further copy, unless this worker wrote it `again` after an unconfirmed commit.
        """
        now, counts = perf_counter_ns(), self._counts
        state, arrived, received = self._state, self._arrived, self._received
        for row, new in zip(rows, fresh, strict=True):
            sequence = row.sequence
            if not new and not again:
                self._copies[sequence] = max(0, self._copies[sequence]) + 1
            # An instance that was killed after its commit left no stamp. The copy proves that the row is stored.
            if state[sequence] != ANSWERED:
                arrived[sequence], received[sequence] = row.arrived_ns, now
                state[sequence] = ANSWERED
        counts[WorkerCount.SESSION_NS], counts[WorkerCount.STORE_NS] = self._store.session_ns, self._store.store_ns

    def _confirm(self) -> None:
        """Confirm to the broker what is stored, or needs no storing."""
        if self._done and self._client.acknowledge(self._done, self._order.qos):
            self._done = []

    def _keep_up(self) -> None:
        """Confirm what needs no storing, and note whether the worker is ready."""
        self._confirm()
        self._counts[WorkerCount.DISCONNECTS] = self._client.disconnects
        if not self._counts[WorkerCount.READY] and self._client.subscribed:
            try:
                self._store.check()
            except psycopg.Error as error:
                print(f"The database does not answer: {str(error).strip()}", flush=True)
                time.sleep(RETRY_S)
                return
            if not self._mode.keeps_session:
                self._store.close()
            self._counts[WorkerCount.READY] = 1


def run(order: Order, number: int, folder: Path, stop: Event) -> None:
    """Run worker `number` of an order until SIGTERM, which sets `stop` in this process of its own."""
    own_process.set_name(PROCESS_NAME)
    if order.cpus and (cpus := order.cpus[number % len(order.brokers)]):
        os.sched_setaffinity(0, cpus)
    samples = SharedSamples(folder / "samples.bin")
    worker = StoreWorker(order, number, os.environ["DATABASE"], samples, WorkerCounts(folder).row(number))
    gc.collect()
    gc.freeze()
    worker.run(stop)
