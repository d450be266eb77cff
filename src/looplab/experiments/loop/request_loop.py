"""The hot path of the control loop: requests as they are due, answers stamped as they come back."""

from collections.abc import Callable
from time import perf_counter_ns

from looplab.experiments.loop.protocol import STATUS_OK, TOPIC_ANSWER, LoopAnswer, parse_answer
from looplab.mqtt.stamped_socket import StampedSocket
from looplab.run.open_loop import Messages, OpenLoop, Sender
from looplab.run.samples import SampleStore

_ANSWER_TOPIC = TOPIC_ANSWER.encode()
_STATUS_OK = STATUS_OK.encode()


class RequestLoop(OpenLoop):
    """Sends the requests `<command>-<token>-<k>` and stamps their answers.

    `sender` publishes, `receiver` hears the answers; both may be one. `on_other(topic, payload)` gets what arrives on
    topics other than the answers'.
    """

    def __init__(
        self,
        sender: Sender,
        receiver: Sender,
        store: SampleStore,
        requests: Messages,
        token: str,
        on_other: Callable[[bytes, bytes], None],
    ) -> None:
        super().__init__(sender, store, requests)
        self._receiver = receiver
        self._token = token.encode()
        self._on_other = on_other
        # (number of the cell, QoS) at which answers came.
        self.answer_qos: set[tuple[int, int]] = set()
        self._per_cell = requests.per_cell
        self._robot, self._wire_robot, self._wait_ns = store["robot_ns"], store["wire_robot_ns"], store["wait_ns"]
        self._wake_up, self._send_path = store["bridge_wake_up_ns"], store["bridge_send_path_ns"]

    def received(self, topic: bytes, payload: bytes, qos: int) -> None:
        """Record one message; MqttClient's `on_message`. T2 is the first instruction."""
        now = perf_counter_ns()
        if topic != _ANSWER_TOPIC:
            self._on_other(topic, payload)
        else:
            self.take(payload, qos, now, self._receiver.sock)

    def take(self, payload: bytes, qos: int, now: int, sock: StampedSocket | None) -> None:
        """Record an answer that arrived at `now` through `sock`."""
        answer = parse_answer(payload)
        if answer is None:
            self.counts.malformed += 1
        elif answer.run != self._token:
            self.counts.foreign += 1
        elif self.awaits(answer.sequence, now):
            self.answer_qos.add((answer.sequence // self._per_cell, qos))
            # Write this before the state: readers of the store go by the state.
            self._robot[answer.sequence] = answer.robot_ns
            self.answered(answer.sequence, now, sock, answer.status == _STATUS_OK)
            self.taken(answer, now)
            if 0 <= answer.wire_sequence < self._store.count:
                self._wire_robot[answer.wire_sequence] = answer.wire_robot_ns
                self._wait_ns[answer.wire_sequence] = answer.wait_ns
                self._wake_up[answer.wire_sequence] = answer.wake_up_ns
                self._send_path[answer.wire_sequence] = answer.send_path_ns

    def taken(self, answer: LoopAnswer, now: int) -> None:
        """Use an answer that was recorded at `now`."""
