"""The open-loop schedule and the outcome of each message: stamps into preallocated rows, and nothing else."""

import gc
from dataclasses import dataclass
from functools import partial
from time import perf_counter_ns
from typing import Protocol

from looplab.mqtt.stamped_socket import StampedSocket
from looplab.run.samples import ANSWERED, LATE, NOT_SENT, ROBOT_ERROR, WAITING, SampleStore

# Time between arming a repetition and its first message.
LEAD_NS = 20_000_000
# How often the end of a repetition checks whether everything was answered.
SETTLE_STEP_NS = 2_000_000
# Answers after the deadline: received for at least this long, checked this often.
DRAIN_NS = 1_000_000_000
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
    """Message k on `topic` is `form % k`; `per_cell` messages make one cell, an answer after the deadline is late."""

    topic: str
    form: bytes
    per_cell: int
    deadline_ms: int


class OpenLoop:
    """Sends each message when it is due and writes its row of `store`.

    `duplicates`, `out_of_order` and `disconnects` are counted for each cell, `malformed` and `foreign` for the run.
    """

    def __init__(self, sender: Sender, store: SampleStore, messages: Messages) -> None:
        cells = -(-store.count // messages.per_cell)
        self.duplicates = [0] * cells
        self.out_of_order = [0] * cells
        self.disconnects = [0] * cells
        self.malformed = 0
        self.foreign = 0
        self._sender, self._store, self._messages = sender, store, messages
        self._deadline_ns = messages.deadline_ms * 1_000_000
        self._first = 0
        self._highest = -1
        self._unsettled = 0
        self._disconnects_seen = -1
        self._state, self._sent = store["state"], store["sent_ns"]
        self._received, self._wire_received = store["received_ns"], store["wire_received_ns"]
        self._left, self._arrived = store["left_ns"], store["arrived_ns"]

    def repetition(self, first: int, count: int, interval_ns: int, qos: int) -> None:
        """Send messages `first` … `first + count - 1`, message first+k at start + k * interval_ns whatever came back;
        then wait until each was answered or its deadline has passed."""
        sender, wait, publish = self._sender, self._sender.wait, self._sender.publish
        topic, form = self._messages.topic, self._messages.form
        due_ns, wire_sent_ns = self._store["due_ns"], self._store["wire_sent_ns"]
        sent_ns, state = self._sent, self._state
        self._first = first
        if self._disconnects_seen < 0:
            self._disconnects_seen = sender.disconnects
        gc.collect()
        gc.freeze()
        gc.disable()
        try:
            start = perf_counter_ns() + LEAD_NS
            for sequence in range(first, first + count):
                due = start + (sequence - first) * interval_ns
                payload = form % sequence
                wait(due)
                state[sequence] = WAITING
                self._unsettled += 1
                due_ns[sequence] = due
                sent_ns[sequence] = now = perf_counter_ns()
                publish(topic, payload, qos)
                sock = sender.sock
                # The stamp is older if paho queued the message: too many unconfirmed, or a full socket.
                if sock is not None and sock.sent_ns >= now:
                    wire_sent_ns[sequence] = sock.sent_ns
                    sock.on_departure(partial(self._left.__setitem__, sequence))
            self._settle(sent_ns[first + count - 1] + self._deadline_ns)
        finally:
            gc.enable()
            gc.unfreeze()
            self._unsettled = 0
            # Those between repetitions count in the cell where they were noticed.
            lost = sender.disconnects
            self.disconnects[first // self._messages.per_cell] += lost - self._disconnects_seen
            self._disconnects_seen = lost

    def drain(self, rows: range) -> None:
        """Receive late answers to `rows` for one more deadline, or until none is missing."""
        end_ns = perf_counter_ns() + max(self._deadline_ns, DRAIN_NS)
        state = self._state[rows.start : rows.stop]
        while WAITING in state.tolist() and (now := perf_counter_ns()) < end_ns:
            self._sender.wait(min(end_ns, now + DRAIN_STEP_NS))

    def counts(self, cell: int) -> dict[str, int]:
        """Return a cell's counts that belong to no single row, as run.json names them."""
        names = ("duplicates", "out_of_order", "disconnects")
        return {name: getattr(self, name)[cell] for name in names}

    def awaits(self, sequence: int) -> bool:
        """Return whether an answer to this message is missing; count the answer as malformed or duplicate if not."""
        if sequence >= self._store.count or self._state[sequence] == NOT_SENT:
            self.malformed += 1
            return False
        if self._state[sequence] != WAITING:
            self.duplicates[sequence // self._messages.per_cell] += 1
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
            self._state[sequence] = ROBOT_ERROR
        elif now - self._sent[sequence] > self._deadline_ns:
            self._state[sequence] = LATE
        else:
            self._state[sequence] = ANSWERED
        if sequence < self._highest:
            self.out_of_order[sequence // self._messages.per_cell] += 1
        else:
            self._highest = sequence

    def _settle(self, end_ns: int) -> None:
        while self._unsettled > 0 and (now := perf_counter_ns()) < end_ns:
            self._sender.wait(min(end_ns, now + SETTLE_STEP_NS))
