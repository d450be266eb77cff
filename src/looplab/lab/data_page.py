"""The tables of docs/data.md that follow from the experiments' own: what a cell of run.json holds."""

from pathlib import Path

from looplab.experiments.registry import EXPERIMENTS
from looplab.lab.handouts import with_block
from looplab.spec.columns import Column, Count, Word
from looplab.spec.experiment import Experiment

PAGE = Path("docs/data.md")


def data_page(root: Path) -> str:
    """Return docs/data.md with the keys of each experiment's cells as they must be."""
    text = (root / PAGE).read_text(encoding="utf-8")
    for name in EXPERIMENTS:
        text = with_block(text, f"cell of {name}", cell_keys(EXPERIMENTS[name]), after=rf"^### A cell of {name}\n")
    return text


def cell_keys(experiment: Experiment) -> str:
    """Return a table of the keys of an experiment's cells, those of all its scenarios."""
    columns = [one for table in (experiment.cell, *experiment.tables.values()) for one in table.columns.values()]
    lines = {".".join(one.path): f"{_unit(one)} | {one.about}" for one in columns if one.stored}
    return "\n".join(["| key | unit | meaning |", "|---|---|---|", *(f"| `{k}` | {v} |" for k, v in lines.items())])


def _unit(column: Column[object]) -> str:
    if isinstance(column, Count | Word):
        return "count" if isinstance(column, Count) else "word"
    return {"us": "µs"}.get(column.unit, column.unit)
