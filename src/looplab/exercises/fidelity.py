"""docs/factors.tsv: each factor of each experiment, and where its source prints it.

Values are those of the experiment's parameters. `factors.csv` beside them adds what the source says, a line a variable:
`printed` is chapter, figure, listing or table, empty for not stated; `note` says what is assumed or differs here.
`verified` names treatments, keys or files of a run, with commas. `value` is for a factor whose default no field has.
A file may have a column `why`: how the factor can change a result.
"""

import csv
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

from looplab.spec.experiment import Experiment
from looplab.spec.parameters import Param
from looplab.spec.reader import FIDELITIES

FACTORS = Path("docs/factors.tsv")
HEAD = "experiment\tfactor\tvalue\tprinted in\tassumed, or different here\twhy it matters"
FILE = "factors.csv"
# What the runs of every experiment can have.
USUAL = ("thesis", "corrected")
NOT_STATED = "–"


def sources(experiment: Experiment) -> dict[str, dict[str, str]]:
    """Return the lines of an experiment's factors.csv by variable; {} if it has none."""
    path = experiment.folder / FILE
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return {line["variable"]: line for line in csv.DictReader(lines)}


def factor_rows(experiment: Experiment) -> list[str]:
    """Return a line for each factor that is not ours alone, with a tab between columns."""
    lines = sources(experiment)
    factors = {name: one for name, one in experiment.parameters.factors().items() if name in lines}
    defaults = [one.default for one in factors.values() if isinstance(one.default, Mapping)]
    fidelities = [name for name in FIDELITIES if name in USUAL or any(name in default for default in defaults)]
    rows = []
    for name, one in factors.items():
        line = lines[name]
        if not line["note"].startswith("ours"):
            value, printed = _value(one, fidelities, line["value"]), line["printed"] or NOT_STATED
            rows.append("\t".join((experiment.name, name, value, printed, line["note"], line.get("why") or "")))
    return rows


def _value(one: Param, fidelities: list[str], value: str) -> str:
    """Return its value in the first fidelity, then each that the next fidelity changes, then those of scenarios."""
    values = {name: value or one.usual(name) or "empty" for name in fidelities}
    own = one.default if isinstance(one.default, Mapping) else {}
    changes = [name for before, name in pairwise(fidelities) if values[name] != values[before]]
    apart = [f"{name}: {one.usual('', name)}" for name in own if name not in FIDELITIES]
    return "; ".join([values[fidelities[0]], *(f"{name}: {values[name]}" for name in changes), *apart])
