"""What an exercise may ask about the cells of a run of the counter."""

FIELDS = {"sleep_ms": 5}
METRICS = ("S",)
FIGURES: tuple[str, ...] = ()
