"""One cell of the loop: what an exercise may ask of it beside latencies and counts."""

from looplab.report.cell import Cell

# The share that MQTT delivered: what the bridge merged was. The share without an answer within an interval of due.
FIGURES = ("delivered_share", "beyond_interval")


class LoopCell(Cell):
    """One interval at one QoS."""

    figures = FIGURES

    @property
    def delivered_share(self) -> float | None:
        """Of a run that does not know why messages were lost, all lost ones count as not delivered."""
        merged = self.document.get("lost_by", {}).get("merged", 0)
        return 1 - (self.lost - merged) / self.sent if self.sent else None
