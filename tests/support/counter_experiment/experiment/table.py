"""A run of the counter as a table of 80 columns."""

from typing import Any

from looplab.run.table import milliseconds, whole


def table(run: dict[str, Any]) -> str:
    """Return the table of one run (a run.json document)."""
    cells = [f"{cell['sleep_ms']:>6g} ms {milliseconds(cell['S_us']['avg'])} ms" for cell in run["cells"]]
    return whole(run, cells)
