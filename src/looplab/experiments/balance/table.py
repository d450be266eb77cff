"""What a terminal shows of a run: the loop's table, with how the robot stood."""

from typing import Any

from looplab.experiments.balance import BalanceCell
from looplab.experiments.loop import table as loop_table


def table(run: dict[str, Any]) -> str:
    """Return the table of one run (a run.json document), no line feed at its end."""
    return loop_table.table(run, BalanceCell)
