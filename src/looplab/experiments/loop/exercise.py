"""What an exercise may ask about the cells of a run of the control loop."""

from looplab.experiments.loop.report import cell
from looplab.experiments.loop.report.claims import claims

__all__ = ["FIELDS", "FIGURES", "LINES", "MEANINGS", "METRICS", "claims"]

FIELDS = {"interval_ms": 20, "qos": 0}
METRICS = ("T", "R", "O", "transport_O", "response", "lateness")
# The last four: time on the run queue, summed over a cell.
FIGURES = (*cell.FIGURES, "cpu_wait.controller", "cpu_wait.broker", "cpu_wait.bridge", "cpu_wait.robot")
MEANINGS = {
    "interval": "the cell: messages sent, answered, lost, late (after the deadline), robot errors",
    "T": "response time at the controller, T2 - T1",
    "R": "the robot's part, R2 - R1 at the bridge; `*` marks figures that depend on a fitted constant",
    "O": "T - R: MQTT, network and containers",
    "O transport": "O where bytes enter and leave the socket; O minus it is the programs' own share",
    "response": "from when a message was due, not sent; `inf` where lost messages reach that quantile",
    "send lateness": "how late messages left: not part of T",
    "beyond interval": "messages that had no answer when the next one was due",
    "lost by": "why messages were lost",
    "run queue": "how long the parts of the loop waited for a processor",
    "load": "how hard the load worked",
}
# The line of the table that a figure is read from, where it has another name.
LINES = {
    "lateness": "send lateness",
    "transport_O": "O transport",
    "beyond_interval": "beyond interval",
    "lost": "lost by",
    "cpu_wait": "run queue",
    "answered_share": "interval",
    "delivered_share": "lost by",
}
