"""What Prometheus gets of twin beside its spec: how long the queue of the running cell is."""

from collections.abc import Iterator

from looplab.metrics.cells import LiveCell


class Live(LiveCell):
    """One cell of the running run, with its queue: messages that were sent and have no outcome yet."""

    def more_figures(self) -> Iterator[tuple[str, float]]:
        yield "queue", self.sent - sum(self.outcomes.values())
