"""What an exercise may ask about the cells of a run of the counter."""

from __future__ import annotations

FIELDS = {"sleep_ms": 5}
METRICS = ("S",)
FIGURES: tuple[str, ...] = ()
