"""Requests at the bridge, and what it appends to its answers: durations of earlier ones, known once those have left."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from looplab.experiments.loop.protocol import LoopRequest
from looplab.mqtt.kernel_stamps import ABSENT

# Answers that may wait for the kernel to stamp their departure: Nagle's algorithm holds one for 40 ms at most.
MOST_LEAVING = 32


@dataclass(slots=True)
class Query:
    """A request, from its arrival until the controller knows the times of its answer.

    What ends in `entered_ns` or `answered_ns` is a time (monotonic ns), the others are durations in ns; ABSENT where
    unknown. `topic` and `properties` are those of its answer.
    """

    request: LoopRequest
    qos: int
    entered_ns: int
    wire_entered_ns: int
    wake_up_ns: int
    topic: str
    properties: bytes
    answered_ns: int = ABSENT
    wire_robot_ns: int = ABSENT
    wait_ns: int = 0
    send_path_ns: int = ABSENT

    def left(self, now_ns: int) -> None:
        """Note when the answer left for the network (monotonic ns)."""
        self.send_path_ns = max(ABSENT, now_ns - self.answered_ns)

    def fields(self) -> bytes:
        """Return the five fields of protocol.py."""
        values = (self.request.sequence, self.wire_robot_ns, self.wait_ns, self.wake_up_ns, self.send_path_ns)
        return b"".join(b"," if value == ABSENT else b",%d" % value for value in values)


class AnswerTimes:
    """The answers of one run that the controller does not know yet, each once and in order."""

    def __init__(self) -> None:
        self._sent: deque[Query] = deque()

    def add(self, query: Query) -> None:
        """Keep what is known of an answer that has just been sent; those of another run are forgotten."""
        if self._sent and self._sent[0].request.run != query.request.run:
            self._sent.clear()
        self._sent.append(query)

    def take(self, run: bytes, stamped: bool, collect: Callable[[], object]) -> bytes:
        """Return the fields of the oldest answer of `run`, b"" if none is known or it has not left yet.

        With `stamped` an answer has left once the kernel says so; `collect` asks it.
        """
        if not self._sent or self._sent[0].request.run != run:
            return b""
        # Answers leave in order: if the newest has left without the oldest, the kernel did not stamp that one.
        newest = self._sent[-1]
        if stamped and newest.send_path_ns == ABSENT:
            collect()
        unknown = ABSENT == newest.send_path_ns == self._sent[0].send_path_ns
        if stamped and unknown and len(self._sent) < MOST_LEAVING:
            return b""
        return self._sent.popleft().fields()
