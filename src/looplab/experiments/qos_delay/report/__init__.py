"""The report on qos-delay: what a delayed link does to QoS 0, 1 and 2, beside the paper's findings."""

from looplab.experiments.qos_delay.report.cell import DelayCell
from looplab.report.stored import Layout

LAYOUT = Layout(
    keys=("delay_pb_ms", "delay_bs_ms", "qos"),
    metrics={"L": "total_us"},
    cell=DelayCell,
)
PAGE = "qos-delay.html"
