"""The report on twin: what limits a digital twin, beside the paper's figures."""

from looplab.experiments.twin.report.cell import TwinCell
from looplab.report.stored import Layout

LAYOUT = Layout(
    keys=("interval_ms", "brokers", "placement", "write_mode", "qos", "repetition"),
    words=("placement", "write_mode"),
    metrics={"storage_delay": "storage_delay_us"},
    cell=TwinCell,
    outcomes={"stored": "stored", "lost": "lost", "refused": "refused"},
    measured=("stored",),
)
PAGE = "twin.html"
