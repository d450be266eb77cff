"""The hot path of the control loop: requests on an open-loop schedule, answers stamped as they come back."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns

from looplab.experiments.loop.protocol import STATUS_OK, TOPIC_ANSWER, TOPIC_REQUEST, parse_answer
from looplab.mqtt.client import MqttClient
from looplab.run.open_loop import OpenLoop
from looplab.run.samples import SampleStore

_ANSWER_TOPIC = TOPIC_ANSWER.encode()
_STATUS_OK = STATUS_OK.encode()


class Measurement(OpenLoop):
    """Sends requests `<command>-<token>-<k>` over `link`.

    `on_other(topic, payload)` gets what arrives on topics other than the answers'.
    """

    def __init__(
        self,
        link: MqttClient,
        store: SampleStore,
        command: str,
        token: str,
        cell_messages: int,
        deadline_ms: int,
        on_other: Callable[[bytes, bytes], None],
    ) -> None:
        super().__init__(
            store,
            f"{command}-{token}-%d".encode(),
            TOPIC_REQUEST,
            cell_messages,
            deadline_ms,
            link,
            link.wait,
            lambda: link.disconnects,
        )
        self._link = link
        self._token = token.encode()
        self._on_other = on_other
        self._robot = store["robot_ns"]
        self._wire_robot, self._wait_ns = store["wire_robot_ns"], store["wait_ns"]

    def received(self, topic: bytes, payload: bytes, _qos: int) -> None:
        """Link's callback; T2 is its first instruction."""
        now = perf_counter_ns()
        if topic != _ANSWER_TOPIC:
            self._on_other(topic, payload)
            return
        answer = parse_answer(payload)
        if answer is None:
            self.malformed += 1
            return
        if answer.run != self._token:
            self.foreign += 1
            return
        # Before the state, which vouches for the rest of its row to whoever reads along.
        if self.awaits(answer.sequence):
            self._robot[answer.sequence] = answer.robot_ns
        if not self.arrived(answer.sequence, now, self._link.sock, answer.status == _STATUS_OK):
            return
        if 0 <= answer.wire_sequence < self._count:
            self._wire_robot[answer.wire_sequence] = answer.wire_robot_ns
            self._wait_ns[answer.wire_sequence] = answer.wait_ns
