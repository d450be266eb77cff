"""One cell of twin: how many brokers, where they are, how the instance stores; its queue and its rates."""

from collections.abc import Mapping, Sequence
from typing import Any

from looplab.report.cell import Cell, KeyPart

# Figures of a cell that are no latencies.
FIGURES = ("queue_max", "drained_s", "rate_in_per_s", "rate_out_per_s", "rate_out_peak_per_s", "limit_per_s")
# A queue is longer than this share of the messages that were sent, and leaves the rate out behind the rate in by it.
QUEUE_SHARE = 0.05


class TwinCell(Cell):
    """One interval, set of brokers, write mode and QoS; repetitions are cells of their own."""

    figures = FIGURES
    brokers = KeyPart(1, int)
    placement = KeyPart(2, str)
    write_mode = KeyPart(3, str)
    iteration = KeyPart(5, int)

    @property
    def qos(self) -> int:
        return int(self.key[4])

    @property
    def answered(self) -> int:
        return int(self.document["stored"])

    @property
    def queue_max(self) -> int:
        return int(self.document["queue_max"])

    @property
    def queues(self) -> bool:
        """Whether a queue formed: more messages waited than some that arrive in a batch, and less left than came in."""
        came_in, left = self.figure("rate_in_per_s"), self.rate_out
        behind = came_in is None or left is None or left < (1 - QUEUE_SHARE) * came_in
        return behind and self.queue_max > QUEUE_SHARE * self.sent

    @property
    def rate_out(self) -> float | None:
        """Messages stored a second; None for fewer than two."""
        return self.figure("rate_out_per_s")

    @property
    def per_broker(self) -> Sequence[Mapping[str, Any]]:
        return list(self.document["per_broker"])

    def broker_figures(self, name: str) -> list[float]:
        """Return a figure of each broker, in their order; brokers without one are left out."""
        return [float(one[name]) for one in self.per_broker if one[name] is not None]
