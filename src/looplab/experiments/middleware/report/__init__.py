"""The report on the middleware: cores, nodes, containers and the balancer, beside the paper's findings."""

from collections.abc import Mapping
from importlib import import_module

from looplab.experiments.middleware.report.cell import MeasuredLoad
from looplab.report.cell import Key, MeasuredCell
from looplab.report.stored import StoredRun, Unusable

CELLS = {"": MeasuredLoad}
PAGE = "middleware.html"


def read(run: StoredRun) -> Mapping[Key, MeasuredCell] | Unusable:
    """Return the cells of a run by key; Unusable if its files do not agree."""
    # Imported late: a list of stored runs needs no columnar library.
    cells: Mapping[Key, MeasuredCell] | Unusable = import_module(f"{__name__}.reading").read(run)
    return cells
