"""The tables of the experiments: each figure is written once, and what shows it takes it from there."""

import re

import pytest
from support.places import ROOT

from looplab.experiments.registry import EXPERIMENTS
from looplab.spec.columns import Figure

SOURCE = ROOT / "src/looplab"
FIGURES = {
    (name, column.name)
    for name, experiment in EXPERIMENTS.items()
    for table in (experiment.cell, *experiment.tables.values())
    for column in table.columns.values()
    if isinstance(column, Figure) and "_" in column.name
}
# The machine has one, too; a key elsewhere; what every run may count.
# A replay has those of control, too.
SHARED = {"age_ms", "steal_s", "interval_ms", "strangers_cpu_s", "upright_s", "angle_rms_rad", "misses"}


@pytest.mark.parametrize(("name", "figure"), sorted(FIGURES))
def test_a_figure_is_named_where_it_is_measured_and_nowhere_else(name: str, figure: str) -> None:
    """Apart from its table, and from the claims and figures of the report that are about it."""
    folder, word = EXPERIMENTS[name].folder, re.compile(rf"\b{figure}\b")
    modules = [path for path in folder.rglob("*.py") if not path.is_relative_to(folder / "report")]
    own = [path for path in modules if path != folder / "__init__.py" and word.search(path.read_text())]
    rooms = [path for path in SOURCE.iterdir() if path.name not in ("experiments", "__pycache__")]
    shared = [path for room in rooms for path in room.rglob("*.py") if word.search(path.read_text())]
    assert len(own) <= 1 or figure in SHARED
    assert not shared or figure in SHARED
