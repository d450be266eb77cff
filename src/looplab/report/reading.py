"""Any stored run, of the loop or of an experiment, and its cells by what tells them apart."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from looplab.exercises.exercise import Key
from looplab.experiments.loop.report.cells import Cell, read_cells
from looplab.experiments.qos_delay.report import runs as delay
from looplab.report.stored import StoredRun, Unusable, checked, read_document


def read_any(folder: Path) -> StoredRun | Unusable:
    """The run in a folder, or what that folder is instead."""
    document = read_document(folder)
    if isinstance(document, Unusable):
        return document
    return delay.checked(folder, document) if delay.is_delay_run(document) else checked(folder, document)


def keys(run: StoredRun) -> set[Key]:
    """What its cells are told apart by: interval and QoS, or both links' delays and QoS."""
    names = ("delay_pb_ms", "delay_bs_ms") if delay.is_delay_run(run.document) else ("interval_ms",)
    return {(*(float(cell[name]) for name in names), int(cell["qos"])) for cell in run.document["cells"]}


def cells_by_key(run: StoredRun) -> Mapping[Key, Cell | delay.DelayCell] | Unusable:
    """Its cells, read from samples.csv; Unusable where that is not what run.json says."""
    if delay.is_delay_run(run.document):
        found = delay.read(run.path)
        return found if isinstance(found, Unusable) else {**found.cells}
    cells = read_cells(run)
    return cells if isinstance(cells, Unusable) else {(cell.interval_ms, cell.qos): cell for cell in cells}
