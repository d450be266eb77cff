"""What an exercise may ask about the cells of a run of qos-delay."""

from looplab.experiments.qos_delay.report.cell import FIGURES
from looplab.experiments.qos_delay.report.findings import claims

__all__ = ["FIELDS", "FIGURES", "LINES", "MEANINGS", "METRICS", "claims"]

# Both links' delays, from publisher to broker and from broker to subscriber.
FIELDS = {"delays_ms": [None, None], "qos": 0}
METRICS = ("L", "T", "transport_L", "lateness")
MEANINGS = {
    "delay": "the cell: the delay from publisher to broker and from broker to subscriber in ms, the QoS",
    "end-to-end": "the delay of both links as the emulator measured it, in ms",
    "L avg": "from publisher to subscriber, in ms; `L p99`: 99 of 100 messages take less",
    "L/delay": "L as a multiple of the end-to-end delay",
    "pkt/seg": "MQTT packets in a TCP segment of the publisher",
}
LINES = {"L": "L avg", "ratio": "L/delay", "packets_per_segment": "pkt/seg"}
