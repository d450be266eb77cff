"""The report on asip: one microcontroller over serial, TCP and MQTT, beside what was published."""

from dataclasses import replace

from looplab.experiments.asip import THROUGHPUT
from looplab.experiments.asip.report.cell import AsipCell
from looplab.report.stored import Layout

KEYS = ("language", "transport", "placement")
_FREQUENCIES = Layout(
    keys=KEYS,
    words=KEYS,
    metrics={},
    cell=AsipCell,
    total="tests",
    factors={
        "PROTOCOL": ("protocol", "asip"),
        "BOARD": ("board", "mega"),
        "ADAPTER": ("adapter", "none"),
        "READ": ("read", "block"),
        "FRAMES": ("frames", "raw"),
        "JIT": ("jit", "on"),
        "CLIENT_CPUS": ("client_cpus", "0"),
        "ASIP_QOS": ("qos", "0"),
        "TCP_NODELAY": ("tcp_nodelay", {"thesis": "off", "corrected": "on"}),
    },
)
# A step of the bisection on frequency has no latency of a message.
LAYOUT = replace(_FREQUENCIES, metrics={"latency": "latency_us"}, scenarios={THROUGHPUT: _FREQUENCIES})
PAGE = "asip.html"
