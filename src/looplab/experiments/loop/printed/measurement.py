"""Requests of the printed publisher and answers to the printed subscriber, each by its packet."""

from collections.abc import Callable
from time import perf_counter_ns, time_ns

from looplab.experiments.loop.printed.clients import PrintedClients
from looplab.experiments.loop.printed.wire import STEP_NS, Publish
from looplab.experiments.loop.protocol import TOPIC_ANSWER, TOPIC_REQUEST, parse_answer, parse_request
from looplab.experiments.loop.request_loop import RequestLoop
from looplab.mqtt.stamped_socket import StampedSocket
from looplab.run.open_loop import Messages
from looplab.run.samples import ABSENT, ANSWERED, LATE, NOT_SENT, WAITING, SampleStore

_REQUESTS, _ANSWERS = TOPIC_REQUEST.encode(), TOPIC_ANSWER.encode()


class PrintedMeasurement(RequestLoop):
    """T1 is the publisher's own stamp, because it never spins; T2 is when the kernel saw the packet of the answer."""

    def __init__(
        self,
        clients: PrintedClients,
        store: SampleStore,
        requests: Messages,
        token: str,
        on_other: Callable[[bytes, bytes], None],
    ) -> None:
        super().__init__(clients, clients, store, requests, token, on_other)
        self._clients = clients
        self._form = requests.form.decode()
        self._wire_sent, self._left, self._due = store["wire_sent_ns"], store["left_ns"], store["due_ns"]
        self._own_sent, self._own_received = store["client_sent_ns"], store["client_received_ns"]

    def repetition(self, first: int, count: int, interval_ns: int, qos: int) -> None:
        self._first, self._unsettled = first, 0
        clients, self._clients.on_publish = self._clients, self._passed
        clients.begin()
        self.counts.begin(clients.disconnects)
        distance_ns = time_ns() - perf_counter_ns()
        begun_ns = perf_counter_ns()
        sent = clients.send(first, count, interval_ns, qos, self._form)
        # The last message may not have left yet.
        clients.wait(perf_counter_ns() + 2 * STEP_NS)
        self._settle(perf_counter_ns() + self._deadline_ns)
        clients.scan()
        answers = clients.answers()
        clients.conclude()
        due_ns = begun_ns + interval_ns
        for sequence, stamp_ns in sent:
            sent_ns = stamp_ns - distance_ns
            self._sent_at(sequence, sent_ns, due_ns)
            due_ns = sent_ns + interval_ns
        for payload, stamp_ns in answers:
            answer = parse_answer(payload.encode())
            if answer is not None and answer.run == self._token and answer.sequence < self._store.count:
                self._own_received[answer.sequence] = stamp_ns - distance_ns
        self._unsettled = 0
        self.counts.add_disconnects(first // self._per_cell, clients.disconnects)

    def _passed(self, one: Publish) -> None:
        if one.topic == _ANSWERS and not one.leaves:
            self.take(one.payload, one.qos, one.stamp_ns, None)
            return
        request = parse_request(one.payload) if one.topic == _REQUESTS else None
        # The publisher's own requests come back to it.
        if request is None or request.run != self._token or not one.leaves:
            return
        if request.sequence < self._store.count and self._state[request.sequence] == NOT_SENT:
            self._sent[request.sequence] = one.stamp_ns
            self._wire_sent[request.sequence] = self._left[request.sequence] = one.stamp_ns
            self._state[request.sequence] = WAITING
            self._unsettled += 1

    def answered(self, sequence: int, now: int, sock: StampedSocket | None, good: bool = True) -> None:
        super().answered(sequence, now, sock, good)
        self._wire_received[sequence] = self._arrived[sequence] = now

    def _sent_at(self, sequence: int, sent_ns: int, due_ns: int) -> None:
        """Put the publisher's stamp in the place of the packet's; a message that left by no packet was sent, too."""
        state, left_ns = self._state, self._left
        self._due[sequence] = due_ns
        # The distance of the two clocks is known to some 100 ns; no packet leaves before it was made.
        self._sent[sequence] = self._own_sent[sequence] = sent_ns
        if left_ns[sequence] != ABSENT:
            self._sent[sequence] = min(sent_ns, left_ns[sequence])
        if state[sequence] == NOT_SENT:
            state[sequence] = WAITING
        elif state[sequence] == ANSWERED and self._received[sequence] - self._sent[sequence] > self._deadline_ns:
            state[sequence] = LATE
