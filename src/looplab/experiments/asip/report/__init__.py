"""The report on asip: one microcontroller over serial, TCP and MQTT, beside what was published."""

from looplab.experiments.asip import THROUGHPUT
from looplab.experiments.asip.report.cell import MeasuredLatency, MeasuredThroughput

CELLS = {"": MeasuredLatency, THROUGHPUT: MeasuredThroughput}
PAGE = "asip.html"
