"""What an exercise may ask about the cells of a run of the control loop."""

from looplab.experiments.loop.report.cell import FIGURES

__all__ = ["FIELDS", "FIGURES", "METRICS"]

FIELDS = {"interval_ms": 20, "qos": 0}
METRICS = ("T", "R", "O", "transport_O", "response", "lateness")
