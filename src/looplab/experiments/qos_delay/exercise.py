"""What an exercise may ask about the cells of a run of qos-delay."""

from looplab.experiments.qos_delay.report.cell import FIGURES

__all__ = ["FIELDS", "FIGURES", "METRICS"]

# Both links' delays, from publisher to broker and from broker to subscriber.
FIELDS = {"delays_ms": [None, None], "qos": 0}
METRICS = ("L", "T", "transport_L", "lateness")
