"""The report on the control loop: the thesis's tables, figures and claims beside what was measured."""

from looplab.experiments.loop.report.cell import LoopCell
from looplab.report.stored import Layout

LAYOUT = Layout(
    keys=("interval_ms", "qos"),
    metrics={"T": "total_us", "R": "robot_us", "O": "overhead_us"},
    times=("due_ns", "received_ns"),
    cell=LoopCell,
    # Exercises ask first about O at 20 ms and QoS 0.
    shown=("O", (20.0, 0.0)),
)
PAGE = "index.html"
