"""When each message is due, and the outcome of each: stamps into preallocated rows, and nothing else."""

import gc
from dataclasses import dataclass
from functools import partial
from time import perf_counter_ns
from typing import Protocol

from looplab.mqtt.stamped_socket import StampedSocket
from looplab.run.samples import ANSWERED, FAILED, LATE, NOT_SENT, WAITING, SampleStore, limit_ns

# Time between arming a repetition and its first message.
LEAD_NS = 20_000_000
# How often the end of a repetition checks whether everything was answered.
SETTLE_STEP_NS = 2_000_000
# How often the end of a cell checks whether late answers are still missing.
DRAIN_STEP_NS = 50_000_000


class Sender(Protocol):
    """What sends the messages, e.g. looplab.mqtt.client.MqttClient; `disconnects` counts lost connections so far."""

    @property
    def sock(self) -> StampedSocket | None: ...
    @property
    def disconnects(self) -> int: ...
    def publish(self, topic: str, payload: bytes, qos: int) -> bool: ...
    def wait(self, until_ns: int) -> object: ...


@dataclass(frozen=True)
class Messages:
    """Message k on `topic` is `form % k`; `per_cell` messages make one cell, an answer after the deadline is late.

    `sleeps`: the next message is due an interval after the last one left, else at start + k * interval.
    """

    topic: str
    form: bytes
    per_cell: int
    deadline_ms: int
    sleeps: bool = False


class MessageCounts:
    """What belongs to no single row: `duplicates`, `out_of_order` and `disconnects` of each of `cells`.

    `malformed`, `foreign` and `expired` (lost messages whose answers came after the time limit) are the run's.
    """

    def __init__(self, cells: int) -> None:
        self.duplicates = [0] * cells
        self.out_of_order = [0] * cells
        self.disconnects = [0] * cells
        self.malformed = 0
        self.foreign = 0
        self.expired: set[int] = set()
        self._disconnects_before = -1

    def of_cell(self, cell: int) -> dict[str, int]:
        """Return the counts of a cell as run.json names them."""
        return {name: getattr(self, name)[cell] for name in ("duplicates", "out_of_order", "disconnects")}

    def begin(self, disconnects: int) -> None:
        """Leave out the connections that were lost before the first message."""
        if self._disconnects_before < 0:
            self._disconnects_before = disconnects

    def add_disconnects(self, cell: int, so_far: int) -> None:
        """Count in a cell the connections lost since this was last called; `so_far` are those of the sender's life."""
        self.disconnects[cell] += so_far - self._disconnects_before
        self._disconnects_before = so_far


class OpenLoop:
    """Sends each message when it is due and writes its row of `store`; `counts` what belongs to no single row."""

    def __init__(self, sender: Sender, store: SampleStore, messages: Messages) -> None:
        self.counts = MessageCounts(-(-store.count // messages.per_cell))
        self._sender, self._store, self._messages = sender, store, messages
        self._deadline_ns, self._limit_ns = messages.deadline_ms * 1_000_000, limit_ns(messages.deadline_ms)
        self._first = 0
        self._highest = -1
        self._unsettled = 0
        self._state, self._sent = store["state"], store["sent_ns"]
        self._received, self._wire_received = store["received_ns"], store["wire_received_ns"]
        self._arrived = store["arrived_ns"]

    def repetition(self, first: int, count: int, interval_ns: int, qos: int) -> None:
        """Send messages `first` … `first + count - 1`, each when it is due whatever came back; then wait until each
        was answered or its deadline has passed."""
        sender, wait, publish = self._sender, self._sender.wait, self._sender.publish
        topic, compose, sleeps = self._messages.topic, self.compose, self._messages.sleeps
        names = ("due_ns", "intended_ns", "wire_sent_ns", "left_ns")
        due_ns, intended_ns, wire_sent_ns, left_ns = (self._store[name] for name in names)
        sent_ns, state = self._sent, self._state
        self._first = first
        self.counts.begin(sender.disconnects)
        gc.collect()
        gc.freeze()
        gc.disable()
        try:
            due = intended = perf_counter_ns() + LEAD_NS
            for sequence in range(first, first + count):
                wait(due)
                payload = compose(sequence)
                state[sequence] = WAITING
                self._unsettled += 1
                due_ns[sequence], intended_ns[sequence] = due, intended
                sent_ns[sequence] = now = perf_counter_ns()
                publish(topic, payload, qos)
                sock = sender.sock
                # The stamp is older if paho queued the message: too many unconfirmed, or a full socket.
                if sock is not None and sock.sent_ns >= now:
                    wire_sent_ns[sequence] = sock.sent_ns
                    sock.on_departure(partial(left_ns.__setitem__, sequence))
                intended += interval_ns
                due = perf_counter_ns() + interval_ns if sleeps else intended
            self._settle(sent_ns[first + count - 1] + self._deadline_ns)
        finally:
            gc.enable()
            gc.unfreeze()
            self._unsettled = 0
            self.counts.add_disconnects(first // self._messages.per_cell, sender.disconnects)

    def compose(self, sequence: int) -> bytes:
        """Return message `sequence`; called once, right before it leaves."""
        return self._messages.form % sequence

    def drain(self, rows: range) -> None:
        """Receive late answers to `rows`, a cell, until none is missing or each missing one would come too late."""
        state = self._state
        missing = [row for row in rows if state[row] == WAITING]
        while missing and (now := perf_counter_ns()) < (end_ns := self._sent[missing[-1]] + self._limit_ns):
            self._sender.wait(min(end_ns, now + DRAIN_STEP_NS))
            missing = [row for row in missing if state[row] == WAITING]
        self.counts.add_disconnects(rows.start // self._messages.per_cell, self._sender.disconnects)

    def awaits(self, sequence: int, now: int) -> bool:
        """Return whether an answer to this message that came at `now` counts; count it as malformed, expired or
        duplicate if not."""
        if sequence >= self._store.count or self._state[sequence] == NOT_SENT:
            self.counts.malformed += 1
            return False
        if now - self._sent[sequence] > self._limit_ns:
            if self._state[sequence] == WAITING:
                self.counts.expired.add(sequence)
            return False
        if self._state[sequence] != WAITING:
            self.counts.duplicates[sequence // self._messages.per_cell] += 1
            return False
        return True

    def answered(self, sequence: int, now: int, sock: StampedSocket | None, good: bool = True) -> None:
        """Record that the answer to a message that `awaits` one arrived at `now` through `sock`."""
        self._received[sequence] = now
        if sock is not None:
            self._wire_received[sequence] = sock.received_ns
            self._arrived[sequence] = sock.arrived_ns
        # A late answer to an earlier repetition must not end the wait for this one's.
        if sequence >= self._first:
            self._unsettled -= 1
        if not good:
            self._state[sequence] = FAILED
        elif now - self._sent[sequence] > self._deadline_ns:
            self._state[sequence] = LATE
        else:
            self._state[sequence] = ANSWERED
        if sequence < self._highest:
            self.counts.out_of_order[sequence // self._messages.per_cell] += 1
        else:
            self._highest = sequence

    def _settle(self, end_ns: int) -> None:
        while self._unsettled > 0 and (now := perf_counter_ns()) < end_ns:
            self._sender.wait(min(end_ns, now + SETTLE_STEP_NS))
