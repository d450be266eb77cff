"""The open-loop schedule and the fate of each message: stamps into preallocated rows, and nothing else."""

from __future__ import annotations

import gc
from collections.abc import Callable
from time import perf_counter_ns
from typing import Protocol

from looplab.mqtt.stamped_socket import StampedSocket
from looplab.run.samples import ANSWERED, LATE, NOT_SENT, ROBOT_ERROR, WAITING, SampleStore

# Time between arming a repetition and its first message.
LEAD_NS = 20_000_000
# How often the end of a repetition looks whether everything was answered.
SETTLE_STEP_NS = 2_000_000
# For answers after the deadline: listened for at least this long, looked for this often.
DRAIN_NS = 1_000_000_000
DRAIN_STEP_NS = 50_000_000


class Sender(Protocol):
    """What messages leave by: looplab.mqtt.client.MqttClient."""

    sock: StampedSocket | None

    def publish(self, topic: str, payload: bytes, qos: int) -> bool: ...


class OpenLoop:
    """Sends message k, `form % k` on `topic`, when it is due, and writes row k of `store`.

    `cell_messages` rows make one cell; counts that belong to no single row are kept for each cell. `wait(until_ns)`
    handles MQTT until then; `disconnects()` is how often a connection was lost so far.
    """

    def __init__(
        self,
        store: SampleStore,
        form: bytes,
        topic: str,
        cell_messages: int,
        deadline_ms: int,
        sender: Sender,
        wait: Callable[[int], object],
        disconnects: Callable[[], int],
    ) -> None:
        cells = -(-store.count // cell_messages)
        self.duplicates = [0] * cells
        self.out_of_order = [0] * cells
        self.disconnects = [0] * cells
        self.malformed = 0
        self.foreign = 0
        self._sender = sender
        self._wait = wait
        self._lost_connections = disconnects
        self._topic = topic
        self._form = form
        self._count = store.count
        self._cell_messages = cell_messages
        self._deadline_ns = deadline_ms * 1_000_000
        self._highest = -1
        self._first = 0
        self._unsettled = 0
        self._disconnects_seen = -1
        self._due, self._sent, self._received = store["due_ns"], store["sent_ns"], store["received_ns"]
        self._state = store["state"]
        self._wire_sent, self._wire_received = store["wire_sent_ns"], store["wire_received_ns"]

    def repetition(self, first: int, count: int, interval_ns: int, qos: int) -> None:
        """Send messages `first` … `first + count - 1`: message first+k is due at start + k * interval_ns,
        whatever came back; then wait until each was answered or its deadline has passed."""
        sender, wait, publish = self._sender, self._wait, self._sender.publish
        form, topic = self._form, self._topic
        due_ns, sent_ns, wire_sent_ns, state = self._due, self._sent, self._wire_sent, self._state
        self._first = first
        if self._disconnects_seen < 0:
            self._disconnects_seen = self._lost_connections()
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
                # Older where paho queued it: too many unconfirmed, or a socket that takes no more.
                if sock is not None and sock.sent_ns >= now:
                    wire_sent_ns[sequence] = sock.sent_ns
            self._settle(sent_ns[first + count - 1] + self._deadline_ns)
        finally:
            gc.enable()
            gc.unfreeze()
            self._unsettled = 0
            # Those between repetitions count too, where they were noticed.
            lost = self._lost_connections()
            self.disconnects[first // self._cell_messages] += lost - self._disconnects_seen
            self._disconnects_seen = lost

    def drain(self, rows: range) -> None:
        """Listen for late answers to `rows` once more as long as a deadline, or until there is none to come."""
        end_ns = perf_counter_ns() + max(self._deadline_ns, DRAIN_NS)
        state = self._state[rows.start : rows.stop]
        while WAITING in state.tolist() and (now := perf_counter_ns()) < end_ns:
            self._wait(min(end_ns, now + DRAIN_STEP_NS))

    def awaits(self, sequence: int) -> bool:
        """Return whether message `sequence` was sent and has no answer yet."""
        return sequence < self._count and self._state[sequence] == WAITING

    def arrived(self, sequence: int, now: int, sock: StampedSocket | None, good: bool = True) -> bool:
        """Note that the answer to a message arrived at `now` by `sock`; False where it is not one to be noted."""
        if sequence >= self._count or self._state[sequence] == NOT_SENT:
            self.malformed += 1
            return False
        if self._state[sequence] != WAITING:
            self.duplicates[sequence // self._cell_messages] += 1
            return False
        self._received[sequence] = now
        if sock is not None:
            self._wire_received[sequence] = sock.received_ns
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
            self.out_of_order[sequence // self._cell_messages] += 1
        else:
            self._highest = sequence
        return True

    def _settle(self, end_ns: int) -> None:
        while self._unsettled > 0:
            now = perf_counter_ns()
            if now >= end_ns:
                return
            self._wait(min(end_ns, now + SETTLE_STEP_NS))
