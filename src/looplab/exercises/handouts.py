"""The parts of pages that `scripts/make-handouts` writes: of each handout what its expected.yaml gives, the keys of
cells in docs/data.md, and the factors in docs/fidelity.md.

Card, form, prediction, sample table and links of a handout are written; the rest is by hand. A test compares.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from looplab.exercises.exercise import Exercise, exercises, experiment_of, read_exercise
from looplab.exercises.fidelity import FIDELITY_PAGE, factor_table
from looplab.exercises.forms import FORM_FILE
from looplab.exercises.hand_in import answer_form
from looplab.run.life import run_table
from looplab.run.table import table_words
from looplab.spec.columns import Column
from looplab.spec.experiment import Experiment, Experiments

DATA_PAGE = Path("docs/data.md")
# A stored run of each experiment, cut: its table is shown in the handouts. A scenario, or a handout, may have its own.
SAMPLES = Path("docs/exercises/samples")
BLOCK = "<!-- {name}: written by scripts/make-handouts -->\n{text}\n<!-- end of {name} -->"
# `./lab run` makes the form of a scenario; another exercise has several runs of scenarios that have forms of their own.
FORM_BY_RUN = """Choose now; write the letter into `answers/{name}.yaml`, the form that `./lab run` makes
({total} points). Any prediction gets its point."""
FORM_BY_COPY = """Write the letter into your form ({total} points) before you run. Any prediction gets its point.

    cp {folder}/form.yaml answers/{name}.yaml"""
SAMPLE_HEAD = "### The table that you will read\n\n"


def handouts(root: Path, experiments: Experiments) -> dict[Path, str]:
    """Return what README and form of each exercise with a card must hold, by their paths."""
    folders = exercises(root)
    known = [read_exercise(root, name, experiments) for name in folders]
    with_card = [exercise for exercise in known if exercise.card.goals]
    texts = {}
    # The handout that shows a sample: the first of those that read such a table.
    first: dict[Path, Exercise] = {}
    for before, exercise, after in zip([None, *with_card], with_card, [*with_card[1:], None], strict=False):
        folder = folders[exercise.name]
        experiment = experiment_of(root, experiments, exercise.runs[-1].scenario)
        links = [
            f"{word}: [{other.title}]({os.path.relpath(folders[other.name], folder)}/README.md)"
            for word, other in (("Previous", before), ("Next", after))
            if other
        ]
        text = _with_card((folder / "README.md").read_text(encoding="utf-8"), exercise)
        text = with_block(text, "links", " · ".join(links), after=r"^# .+\n")
        place = folder.relative_to(root)
        text = with_block(text, "prediction", _prediction(exercise, place), before=r"^## Run\n")
        texts[folder / FORM_FILE] = answer_form(exercise)
        shown_in = first.setdefault(_sample_path(root, experiment, *_places(exercise)), exercise)
        there = f"[{shown_in.title}]({os.path.relpath(folders[shown_in.name], folder)}/README.md)"
        sample = _sample(root, exercise, experiment, "" if shown_in is exercise else there)
        texts[folder / "README.md"] = with_block(text, "sample", sample, before=r"^## Look inside\n")
    return texts


def with_block(text: str, name: str, content: str, *, after: str = "", before: str = "") -> str:
    """Return the text with that block replaced, or put after the first match of `after` or before that of `before`."""
    block = BLOCK.format(name=name, text=content)
    present = re.compile(rf"<!-- {name}: .*?<!-- end of {name} -->", re.DOTALL)
    if present.search(text):
        return present.sub(lambda _match: block, text, count=1)
    place = re.compile(after or before, re.MULTILINE)
    put = (lambda match: f"{match[0]}\n{block}\n") if after else (lambda match: f"{block}\n\n{match[0]}")
    return place.sub(put, text, count=1)


def _with_card(text: str, exercise: Exercise) -> str:
    """Return the text with its title, and the card's rows on learning goals, prerequisites and a student's time."""
    text = re.sub(r"\A# (\w[\w ]*: )?.*", lambda match: f"# {match[1] or ''}{exercise.title}", text)
    card = exercise.card
    parts = f"read and predict {card.reading}, run {card.running}, answer {card.answering}"
    rows = {
        "you learn": "; ".join(card.goals),
        "before this": "; ".join(card.before) or "nothing",
        "time": f"{card.minutes} minutes: {parts}",
    }
    for name in rows:
        text = re.sub(rf"^\| {name} \|.*\n", "", text, flags=re.MULTILINE)
    made = "".join(f"| {name} | {content} |\n" for name, content in rows.items())
    return re.sub(r"^(\| parts \|.*\n)", lambda match: match[1] + made, text, count=1, flags=re.MULTILINE)


def _prediction(exercise: Exercise, folder: Path) -> str:
    lines = []
    for question in (question for question in exercise.questions if question.predicts):
        options = [f"- {option}: {text}" for option, text in question.options.items()]
        lines += [f"**{question.asks}**", "", *options, ""]
    form = FORM_BY_COPY if folder.is_relative_to("docs") else FORM_BY_RUN
    lines.append(form.format(name=exercise.name, total=exercise.total, folder=folder))
    return "\n".join(lines)


def _sample(root: Path, exercise: Exercise, experiment: Experiment, there: str) -> str:
    """Return the table of a stored run, or `there` if another handout shows it, and what the lines asked about mean."""
    scenario = exercise.runs[-1].scenario
    meanings, headings = words(experiment, scenario)
    asked = [f"- `{line}`: {meanings[line]}" for line in _lines_read(exercise, meanings, headings)]
    if there:
        return "\n".join([f"{SAMPLE_HEAD}{there} shows one. You need:", "", *asked[1:]])
    table = run_table(experiment, sample_run(root, experiment, *_places(exercise)))
    head = f"{SAMPLE_HEAD}`./lab show` prints it; your figures differ."
    return "\n".join([head, "", "```text", table, "```", "", *asked])


def sample_run(root: Path, experiment: Experiment, *names: str) -> dict[str, Any]:
    """Return the stored run whose table a handout shows: the first of these names', else that of its experiment."""
    document: dict[str, Any] = json.loads(_sample_path(root, experiment, *names).read_text(encoding="utf-8"))
    return document


def _places(exercise: Exercise) -> tuple[str, str]:
    return exercise.name, exercise.runs[-1].scenario


def _sample_path(root: Path, experiment: Experiment, *names: str) -> Path:
    paths = [root / SAMPLES / f"{name}.json" for name in (*names, experiment.name)]
    return next((path for path in paths if path.is_file()), paths[-1])


def words(experiment: Experiment, scenario: str) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return what the lines or columns of the table mean, and the one that each figure is read from."""
    return table_words(experiment.table(scenario))


def _lines_read(exercise: Exercise, lines: Iterable[str], headings: Mapping[str, str]) -> list[str]:
    """Return those of the table's lines that the exercise asks about; the first names the cell."""
    columns = {value.name: value.name.partition(".")[0] for value in exercise.values}
    wanted = {headings.get(name, headings.get(column, column)) for name, column in columns.items()}
    first, *rest = lines
    return [first, *(line for line in rest if line in wanted)]


def pages(root: Path, experiments: Experiments) -> dict[Path, str]:
    """Return what docs/data.md and docs/fidelity.md must hold, by path."""
    cells = {f"cell of {name}": cell_keys(experiment) for name, experiment in experiments.items()}
    times = Counter(chain(*cells.values()))
    cells = {title: [row for row in rows if times[row] == 1] for title, rows in cells.items()}
    cells["cell of several experiments"] = [row for row, count in times.items() if count > 1]
    keys = {title: "\n".join(["| key | meaning |", "|---|---|", *rows]) for title, rows in cells.items()}
    factors = {f"Factors of {name}": factor_table(experiment) for name, experiment in experiments.items()}
    texts = {root / path: (root / path).read_text(encoding="utf-8") for path in (DATA_PAGE, FIDELITY_PAGE)}
    for path, tables in zip(texts, (keys, factors), strict=True):
        for title, table in tables.items():
            texts[path] = with_block(texts[path], title, table, after=rf"^#+ (A )?{title}\n")
    return texts


def cell_keys(experiment: Experiment) -> list[str]:
    """Return a table's rows for the keys of an experiment's cells, those of all its scenarios."""
    columns = [one for table in (experiment.cell, *experiment.tables.values()) for one in table.columns.values()]
    lines = {".".join(one.path): f"{one.about}{_unit(one)}" for one in columns if one.stored}
    # A key within another one stands in that one's row.
    return [f"| `{key}` | {meaning} |" for key, meaning in lines.items() if key.rpartition(".")[0] not in lines]


def _unit(column: Column[object]) -> str:
    """Return the unit in brackets; a count and a word have none."""
    return f" ({'µs' if column.unit == 'us' else column.unit})" if column.unit else ""
