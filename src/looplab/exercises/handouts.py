"""What `scripts/make-handouts` writes: of each handout card, form, prediction and lines to read, the keys of cells in
docs/keys.tsv, the factors in docs/factors.tsv, the order of exercises in docs/README.md. A test compares.

Factors have the values of an experiment's parameters. `factors.csv` beside these adds what the source says, a line a
variable: `printed` is chapter, figure, listing or table, empty for not stated; `note` says what is assumed or differs
here. `verified` names treatments, keys or files of a run, with commas. `value` is for a factor whose default no field
has. A file may have a column `why`: how the factor can change a result.
"""

import csv
import os
import re
from collections.abc import Container, Iterable, Mapping
from itertools import pairwise
from pathlib import Path

import yaml

from looplab.errors import UsageError
from looplab.exercises.exercise import Exercise, exercises, experiment_of, read_exercise
from looplab.exercises.forms import FORM_FILE
from looplab.exercises.hand_in import answer_form
from looplab.run.table import table_words
from looplab.spec.columns import Key
from looplab.spec.experiment import Experiment, Experiments
from looplab.spec.parameters import Param
from looplab.spec.reader import FIDELITIES
from looplab.system.remedies import table

KEYS, FACTORS = Path("docs/keys.tsv"), Path("docs/factors.tsv")
HEAD = "experiment\tfactor\tvalue\tprinted in\tassumed, or different here\twhy it matters"
ORDER_PAGE, PROBLEMS = Path("docs/README.md"), Path("docs/problems.md")
# The order of exercises on each track, as docs/README.md shows it.
TRACKS_FILE = Path("docs/exercises/tracks.yaml")
BLOCK = "<!--{name}: scripts/make-handouts-->\n{text}\n<!--/{name}-->"
CHOOSE = "Choose now: `./lab predict {name}`"
# What the runs of every experiment can have.
USUAL = ("thesis", "corrected")
NOT_STATED = "–"


def handouts(root: Path, experiments: Experiments) -> dict[Path, str]:
    """Return what README and form of each exercise with a card must hold, by their paths."""
    folders = exercises(root)
    found = {name: one for name in folders if (one := read_exercise(root, name, experiments)).card.goals}
    lines = {name: _lines_read(root, one, experiments) for name, one in found.items()}
    texts = {}
    for name, exercise in found.items():
        folder = folders[name]
        links = {other: f"{os.path.relpath(path, folder)}/README.md" for other, path in folders.items()}
        explained = {line for earlier in _before(name, found) for line in lines[earlier].items()}
        text = _with_card((folder / "README.md").read_text(encoding="utf-8"), exercise, links)
        text = with_block(text, "prediction", _prediction(exercise))
        text = with_block(text, "table", _table(exercise, lines[name], explained))
        texts[folder / "README.md"] = text
        texts[folder / FORM_FILE] = answer_form(exercise)
    return texts


def with_block(text: str, name: str, content: str) -> str:
    """Return the text with the block of that name replaced. LabError (exit code 2) for a text without one."""
    block = BLOCK.format(name=name, text=content)
    made, found = re.subn(rf"<!--{name}: .*?<!--/{name}-->", lambda _match: block, text, count=1, flags=re.DOTALL)
    if not found:
        raise UsageError(f"{text.splitlines()[0]}: no block `{name}`.", "Copy its comments from another page.")
    return made


def _with_card(text: str, exercise: Exercise, pages: Mapping[str, str]) -> str:
    """Return the text with its title, and the card's rows on goals, the exercises before it and a student's time."""
    text = re.sub(r"\A# (\w[\w ]*: )?.*", lambda match: f"# {match[1] or ''}{exercise.title}", text)
    card = exercise.card
    rows = {
        "you learn": "; ".join(card.goals),
        "before this": _links(card.before, pages),
        "time": f"{card.minutes} minutes, {card.running} for runs",
    }
    for name in rows:
        text = re.sub(rf"^\| {name} \|.*\n", "", text, flags=re.MULTILINE)
    made = "".join(f"| {name} | {content} |\n" for name, content in rows.items() if content)
    return re.sub(r"^(\| parts \|.*\n)", lambda match: match[1] + made, text, count=1, flags=re.MULTILINE)


def _links(names: Iterable[str], pages: Mapping[str, str]) -> str:
    return ", ".join(f"[{name}]({pages[name]})" for name in names)


def _prediction(exercise: Exercise) -> str:
    asked = [f"**{question.asks}**" for question in exercise.questions if question.predicts]
    return "\n\n".join([*asked, CHOOSE.format(name=exercise.name)])


def _table(exercise: Exercise, lines: Mapping[str, str], explained: Container[tuple[str, str]]) -> str:
    """Return the lines of the table that the exercise asks about, with the meaning of those that are new."""
    shown = ", ".join(f"`./lab show {scenario}`" for scenario in dict.fromkeys(run.scenario for run in exercise.runs))
    known = ", ".join(f"`{line}`" for line, meaning in lines.items() if (line, meaning) in explained)
    new = [f"`{line}`: {meaning}" for line, meaning in lines.items() if (line, meaning) not in explained]
    return "\n".join([f"Read in {shown}:", "", *(f"- {one}" for one in (known, *new) if one)])


def _before(name: str, found: Mapping[str, Exercise]) -> set[str]:
    """Return the names of the exercises before that one, and of those before them."""
    return {one for earlier in found[name].card.before for one in (earlier, *_before(earlier, found))}


def _lines_read(root: Path, exercise: Exercise, experiments: Experiments) -> dict[str, str]:
    """Return the table's lines that the exercise asks about, with their meanings, without the cell's in front."""
    scenario = exercise.runs[-1].scenario
    lines, headings = table_words(experiment_of(root, experiments, scenario).table(scenario))
    wanted = {headings.get(one.name, headings.get(at := one.name.partition(".")[0], at)) for one in exercise.values}
    return {line: meaning for line, meaning in list(lines.items())[1:] if line in wanted}


def pages(root: Path, experiments: Experiments) -> dict[Path, str]:
    """Return what pages with keys of cells, factors, the order of exercises and remedies must hold, by path."""
    keys: dict[str, list[str]] = {"experiments\tkey\tmeaning": []}
    for name, experiment in experiments.items():
        for key in cell_keys(experiment):
            keys.setdefault(key, []).append(name)
    factors = [HEAD, *(row for experiment in experiments.values() for row in factor_rows(experiment))]
    order, problems = ((root / page).read_text(encoding="utf-8") for page in (ORDER_PAGE, PROBLEMS))
    return {
        root / KEYS: "".join(f"{' '.join(names)}{key}\n" for key, names in keys.items()),
        root / FACTORS: "".join(f"{row}\n" for row in factors),
        root / PROBLEMS: with_block(problems, "machine", table()),
        root / ORDER_PAGE: with_block(order, "order", _order(root, experiments)),
    }


def tracks(root: Path) -> dict[str, list[str]]:
    """Return the names of the exercises on each track, in the order of a student."""
    found: dict[str, list[str]] = yaml.safe_load((root / TRACKS_FILE).read_text(encoding="utf-8"))
    return found


def _order(root: Path, experiments: Experiments) -> str:
    """Return a row of exercises for each track, in their order, with a student's minutes."""
    folders = exercises(root)
    rows = ["| track | exercises, with minutes |", "|---|---|"]
    for track, names in tracks(root).items():
        cards = []
        for name in names:
            exercise = read_exercise(root, name, experiments)
            page = os.path.relpath(folders[name], root / ORDER_PAGE.parent)
            cards.append(f"[{exercise.title}]({page}/README.md) {exercise.card.minutes}")
        rows.append(f"| {track} | {' → '.join(cards)} |")
    return "\n".join(rows)


def cell_keys(experiment: Experiment) -> list[str]:
    """Return key and meaning of an experiment's figures, a tab before each; keys of cells and outcomes need none."""
    columns = [one for table in (experiment.cell, *experiment.tables.values()) for one in table.columns.values()]
    described = (one for one in columns if one.stored and not isinstance(one, Key) and not getattr(one, "outcome", ""))
    units = {"": "", "us": " (µs)"}
    lines = {".".join(one.path): one.about + units.get(one.unit, f" ({one.unit})") for one in described}
    # A key within another one stands in that one's row.
    return [f"\t{key}\t{meaning}" for key, meaning in lines.items() if key.rpartition(".")[0] not in lines]


def sources(experiment: Experiment) -> dict[str, dict[str, str]]:
    """Return the lines of an experiment's factors.csv by variable; {} if it has none."""
    path = experiment.folder / "factors.csv"
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
