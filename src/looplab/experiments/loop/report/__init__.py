"""The report on the control loop: the thesis's tables, figures and claims beside what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from looplab.report.stored import Layout

if TYPE_CHECKING:
    from looplab.report.samples import Measured
    from looplab.report.shell import Analysis

LAYOUT = Layout(
    schema=Path(__file__).parents[1] / "run.schema.json",
    keys=("interval_ms", "qos"),
    metrics={"T": "total_us", "R": "robot_us", "O": "overhead_us"},
)
PAGE = "index.html"


def analyse(measured: Sequence[Measured]) -> Analysis:
    """Return what these runs show: one of each scenario and fidelity."""
    from looplab.experiments.loop.report.analysis import analyse

    return analyse(measured)
