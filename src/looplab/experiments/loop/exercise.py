"""What an exercise may ask about the cells of a run of the control loop."""

from looplab.experiments.loop.report import cell

FIELDS = {"interval_ms": 20, "qos": 0}
METRICS = ("T", "R", "O", "transport_O", "response", "lateness")
# The last four: time on the run queue, summed over a cell.
FIGURES = (*cell.FIGURES, "cpu_wait.controller", "cpu_wait.broker", "cpu_wait.bridge", "cpu_wait.robot")
