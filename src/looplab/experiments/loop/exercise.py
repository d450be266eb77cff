"""What an exercise may ask about the cells of a run of the control loop."""

FIELDS = {"interval_ms": 20, "qos": 0}
METRICS = ("T", "R", "O", "transport_O", "lateness")
FIGURES: tuple[str, ...] = ()
