"""What a terminal shows of a run: the loop's table, with how the robot stood."""

from looplab.experiments.loop.table import table

__all__ = ["table"]
