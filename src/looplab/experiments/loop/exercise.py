"""What an exercise may ask about the cells of a run of the control loop."""

FIELDS = {"interval_ms": 20, "qos": 0}
METRICS = ("T", "R", "O", "transport_O", "lateness")
# Time on the run queue, summed over a cell.
FIGURES = ("cpu_wait.controller", "cpu_wait.broker", "cpu_wait.bridge", "cpu_wait.robot")
