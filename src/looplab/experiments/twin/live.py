"""What Prometheus gets of twin beside its spec: how long the queue of the running cell is."""

from looplab.metrics.cells import LiveCell
from looplab.metrics.text_format import line


class Live(LiveCell):
    """One cell of the running run, with its queue: messages that were sent and have no outcome yet."""

    def _render(self) -> dict[str, str]:
        name, queue = "twin_queue_length", self.sent - sum(self.outcomes.values())
        return {**super()._render(), name: line(name, self.labels, queue)}
