"""The parts of pages that `scripts/make-handouts` writes: of each handout what its expected.yaml gives, and the keys of
cells in docs/data.md.

Card, prediction, sample table and links of a handout are written; the rest is by hand. A test compares.
"""

import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from textwrap import fill
from typing import Any

from looplab.exercises.exercise import Exercise, exercises, experiment_of, read_exercise
from looplab.report.claims import claims
from looplab.run.life import run_table
from looplab.run.table import table_words
from looplab.spec.columns import Column, Count, Word
from looplab.spec.experiment import Experiment, Experiments

DATA_PAGE = Path("docs/data.md")
# A stored run of each experiment, cut to one cell: its table is shown in the handouts. A scenario may have its own.
SAMPLES = Path("docs/exercises/samples")
BLOCK = "<!-- {name}: written by scripts/make-handouts -->\n{text}\n<!-- end of {name} -->"
WIDTH = 118
PREDICTION_RULE = "Write the letter into the form before you run. Any prediction gets its point, right or wrong."
SAMPLE_HEAD = "### The table that you will read\n\nA run on another machine; yours has other figures."


def handouts(root: Path, experiments: Experiments) -> dict[Path, str]:
    """Return what the README of each exercise with a card must hold, by its path."""
    known = [read_exercise(root, name, experiments) for name in exercises(root)]
    with_card = [exercise for exercise in known if exercise.card.goals]
    folders = exercises(root)
    texts = {}
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
        text = with_block(text, "prediction", _prediction(exercise, experiment), before=r"^## Run\n")
        sample = _sample(root, exercise, experiment)
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
    parts = f"{card.reading} to read and predict, {card.running} for the runs, {card.answering} to answer"
    rows = {
        "you learn": "; ".join(card.goals),
        "before this": "; ".join(card.before) or "nothing",
        "time": f"{card.minutes} minutes: {parts}",
    }
    for name in rows:
        text = re.sub(rf"^\| {name} \|.*\n", "", text, flags=re.MULTILINE)
    made = "".join(f"| {name} | {content} |\n" for name, content in rows.items())
    return re.sub(r"^(\| parts \|.*\n)", lambda match: match[1] + made, text, count=1, flags=re.MULTILINE)


def _prediction(exercise: Exercise, experiment: Experiment) -> str:
    lines = []
    for question in (question for question in exercise.questions if question.predicts):
        options = [f"- {option}: {text}" for option, text in question.options.items()]
        lines += [f"**{question.asks}**", "", *options, ""]
    lines.append(fill(PREDICTION_RULE, WIDTH))
    if exercise.card.claims:
        titles = claim_titles(experiment)
        quoted = ", ".join(f"“{titles[claim]}”" for claim in exercise.card.claims)
        lines += ["", fill(f"The report judges the published claim by your runs: {quoted}.", WIDTH)]
    return "\n".join(lines)


def claim_titles(experiment: Experiment) -> dict[str, str]:
    """Return the titles of the claims that the report of an experiment judges, by their names."""
    return {claim.name: claim.title for claim in claims(experiment)}


def _sample(root: Path, exercise: Exercise, experiment: Experiment) -> str:
    """Return the table of a stored run, and what the lines mean that the exercise asks about."""
    scenario = exercise.runs[-1].scenario
    meanings, headings = words(experiment, scenario)
    asked = [f"- `{line}`: {meanings[line]}" for line in _lines_read(exercise, meanings, headings)]
    table = run_table(experiment, sample_run(root, experiment, scenario))
    return "\n".join([SAMPLE_HEAD, "", "```text", table, "```", "", *asked])


def sample_run(root: Path, experiment: Experiment, scenario: str) -> dict[str, Any]:
    """Return the stored run whose table the handouts of a scenario show: its own, or that of its experiment."""
    paths = [root / SAMPLES / f"{name}.json" for name in (scenario, experiment.name)]
    path = next((path for path in paths if path.is_file()), paths[-1])
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def words(experiment: Experiment, scenario: str) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return what the lines or columns of the table mean, and the one that each figure is read from."""
    return table_words(experiment.table(scenario))


def _lines_read(exercise: Exercise, lines: Iterable[str], headings: Mapping[str, str]) -> list[str]:
    """Return those of the table's lines that the exercise asks about; the first names the cell."""
    columns = {value.name: value.name.partition(".")[0] for value in exercise.values}
    wanted = {headings.get(name, headings.get(column, column)) for name, column in columns.items()}
    first, *rest = lines
    return [first, *(line for line in rest if line in wanted)]


def data_page(root: Path, experiments: Experiments) -> str:
    """Return docs/data.md with the keys of each experiment's cells as they must be."""
    text = (root / DATA_PAGE).read_text(encoding="utf-8")
    for name in experiments:
        text = with_block(text, f"cell of {name}", cell_keys(experiments[name]), after=rf"^### A cell of {name}\n")
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
