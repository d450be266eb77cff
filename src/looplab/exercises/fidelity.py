"""docs/fidelity.md: each factor of each experiment, where its source prints it, and how a run verifies it.

Values are those of the experiment's parameters. `factors.csv` beside them adds what the source says, a line a variable:
`printed` is chapter, figure, listing or table, empty for not stated; `note` says what is assumed or differs here.
`verified` names treatments, keys or files of a run, with commas. `value` is for a factor whose default no field has.
"""

import csv
from collections.abc import Mapping
from pathlib import Path

from looplab.spec.experiment import Experiment
from looplab.spec.parameters import Param
from looplab.spec.reader import FIDELITIES

FIDELITY_PAGE = Path("docs/fidelity.md")
FILE = "factors.csv"
# What the runs of every experiment can have.
USUAL = ("thesis", "corrected")


def sources(experiment: Experiment) -> dict[str, dict[str, str]]:
    """Return the lines of an experiment's factors.csv by variable; {} if it has none."""
    path = experiment.folder / FILE
    if not path.is_file():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        return {line["variable"]: line for line in csv.DictReader(file)}


def factor_table(experiment: Experiment) -> str:
    """Return the table of an experiment's factors."""
    factors, lines = experiment.parameters.factors(), sources(experiment)
    defaults = [one.default for one in factors.values() if isinstance(one.default, Mapping)]
    columns = [name for name in FIDELITIES if name in USUAL or any(name in default for default in defaults)]
    head = ["factor", *columns, "printed in", "assumed, or different here", "shown in a run by"]
    rows = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for variable, one in factors.items():
        line = lines[variable]
        values = _values(one, columns, line["value"])
        shown = ", ".join(f"`{name}`" for name in line["verified"].split(", "))
        row = (f"`{variable}`", *values, line["printed"] or "not stated", line["note"], shown)
        rows.append(f"| {' | '.join(row)} |")
    return "\n".join(rows)


def _values(one: Param, columns: list[str], value: str) -> list[str]:
    """Return its value in each fidelity, the first one's once, and those of scenarios with their own."""
    values = [value or one.usual(fidelity) or "empty" for fidelity in columns]
    own = one.default if isinstance(one.default, Mapping) else {}
    apart = [f"{name}: {one.usual('', name)}" for name in own if name not in FIDELITIES]
    return ["; ".join([values[0], *apart]), *("the same" if text == values[0] else text for text in values[1:])]
