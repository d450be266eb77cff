"""What the bridge appends to its answers: durations of earlier ones, which are known only once those have left."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from looplab.mqtt.kernel_stamps import ABSENT

# Answers that may wait for the kernel to stamp their departure: Nagle's algorithm holds one for 40 ms at most.
MOST_LEAVING = 32


@dataclass
class Times:
    """One answer that was sent; durations in ns, ABSENT where unknown."""

    sequence: int
    answered_ns: int
    wire_robot_ns: int
    wait_ns: int
    wake_up_ns: int
    send_path_ns: int = ABSENT

    def left(self, now_ns: int) -> None:
        """Note when the answer left for the network (monotonic ns)."""
        self.send_path_ns = max(ABSENT, now_ns - self.answered_ns)

    def fields(self) -> bytes:
        """Return the five fields of protocol.py."""
        values = (self.sequence, self.wire_robot_ns, self.wait_ns, self.wake_up_ns, self.send_path_ns)
        return b"".join(b"," if value == ABSENT else b",%d" % value for value in values)


class AnswerTimes:
    """The answers of one run that the controller does not know yet, each once and in order."""

    def __init__(self) -> None:
        self._run = b""
        self._sent: deque[Times] = deque()

    def add(self, run: bytes, times: Times) -> None:
        """Keep what is known of an answer that has just been sent; that of another run is forgotten."""
        if run != self._run:
            self._run = run
            self._sent.clear()
        self._sent.append(times)

    def take(self, run: bytes, stamped: bool, collect: Callable[[], object]) -> bytes:
        """Return the fields of the oldest answer of `run`, b"" if none is known or it has not left yet.

        With `stamped` an answer has left once the kernel says so; `collect` asks it.
        """
        if run != self._run or not self._sent:
            return b""
        # Answers leave in order: if the newest has left without the oldest, the kernel did not stamp that one.
        newest = self._sent[-1]
        if stamped and newest.send_path_ns == ABSENT:
            collect()
        unknown = ABSENT == newest.send_path_ns == self._sent[0].send_path_ns
        if stamped and unknown and len(self._sent) < MOST_LEAVING:
            return b""
        return self._sent.popleft().fields()
