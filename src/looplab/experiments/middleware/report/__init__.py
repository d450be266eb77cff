"""The report on the middleware: cores, nodes, containers and the balancer, beside the paper's findings."""

from collections.abc import Mapping
from importlib import import_module

from looplab.experiments.middleware.document import FATES, KEYS
from looplab.experiments.middleware.report.cell import LoadCell
from looplab.report.cell import Cell, Key
from looplab.report.stored import Layout, StoredRun, Unusable


def _read(run: StoredRun) -> Mapping[Key, Cell] | Unusable:
    # Imported late: a list of stored runs needs no columnar library.
    found: Mapping[Key, Cell] | Unusable = import_module(f"{__name__}.reading").read(run)
    return found


LAYOUT = Layout(
    keys=KEYS,
    metrics={},
    cell=LoadCell,
    total="requests",
    outcomes={name: name for name in FATES},
    measured=("succeeded",),
    read=_read,
)
PAGE = "middleware.html"
