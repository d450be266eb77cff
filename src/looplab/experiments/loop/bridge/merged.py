"""Which requests got no answer of their own, because the robot's answers met in one burst."""

from collections.abc import Callable

from looplab.experiments.loop.losses import TOPIC_BRIDGE_MERGED, merged_payload
from looplab.experiments.loop.protocol import Request

# Published when the bridge is idle, or once there are so many.
MOST = 500


class Merged:
    """Merged requests, published as soon as that disturbs nobody; `publish(topic, payload, qos)` is the client's."""

    def __init__(self, publish: Callable[[str, bytes, int], object]) -> None:
        self._publish = publish
        self._run, self._sequences = b"", list[int]()

    def add(self, request: Request) -> None:
        if request.run != self._run or len(self._sequences) >= MOST:
            self.report()
        self._run = request.run
        self._sequences.append(request.sequence)

    def report(self) -> None:
        """Publish what was not published yet."""
        if self._sequences:
            self._publish(TOPIC_BRIDGE_MERGED, merged_payload(self._run, self._sequences), 1)
            self._sequences = []
