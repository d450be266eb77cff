"""The report on the counter."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from looplab.report.stored import Layout

if TYPE_CHECKING:
    from looplab.report.samples import Measured
    from looplab.report.shell import Analysis

LAYOUT = Layout(schema=Path(__file__).parents[1] / "run.schema.json", keys=("sleep_ms",), metrics={"S": "total_us"})
PAGE = "counter.html"


def analyse(measured: Sequence[Measured]) -> Analysis:
    """Return what these runs show."""
    from looplab.experiments.counter.report.analysis import analyse

    return analyse(measured)
