"""What an exercise may ask about the cells of a run of asip."""

from looplab.experiments.asip.report.cell import FIGURES
from looplab.experiments.asip.report.findings import claims

__all__ = ["FIELDS", "FIGURES", "LINES", "MEANINGS", "METRICS", "claims"]

FIELDS = {"language": "python", "transport": "serial", "placement": "one"}
# `edge_latency` is the oscilloscope's.
METRICS = ("latency", "edge_latency", "lateness")
MEANINGS = {
    "client": "the cell: language of the client, transport, and what runs elsewhere (`one`: nothing)",
    "mean": "from setting the pin to its notice, on the client's clock, in ms; `p95`: 95 of 100 tests take less",
    "edge": "from an edge of pin 2 to that of pin 13, by the oscilloscope, in ms",
    "wire": "the time that the bytes of one test take on the wire, in ms",
    "tracked": "the highest frequency whose edges were all copied, in Hz; `missed`: the lowest that was not",
    "limit": "the frequency that fills the wire, in Hz",
}
LINES = {
    "latency": "mean",
    "edge_latency": "edge",
    "wire_us": "wire",
    "over_wire": "wire",
    "tracked_hz": "tracked",
    "tracked_share": "limit",
    "wire_hz": "limit",
}
