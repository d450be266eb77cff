"""The report on asip: one microcontroller over serial, TCP and MQTT, beside what was published."""

from dataclasses import replace
from pathlib import Path

from looplab.experiments.asip import THROUGHPUT
from looplab.experiments.asip.report.cell import AsipCell
from looplab.report.stored import Layout

KEYS = ("language", "transport", "placement")
_FREQUENCIES = Layout(
    schema=Path(__file__).parents[1] / "run.schema.json",
    keys=KEYS,
    words=KEYS,
    metrics={},
    cell=AsipCell,
    total="tests",
    factors={
        "protocol": "asip",
        "board": "mega",
        "adapter": "none",
        "read": "block",
        "jit": "on",
        "client_cpus": "0",
        "qos": "0",
    },
)
# A step of the bisection on frequency has no latency of a message.
LAYOUT = replace(_FREQUENCIES, metrics={"latency": "latency_us"}, scenarios={THROUGHPUT: _FREQUENCIES})
PAGE = "asip.html"
