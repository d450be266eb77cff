"""The parts of a handout that follow from its expected.yaml: card, prediction, sample table, links.

The rest of a README is written by hand. `scripts/make-handouts` writes these parts; a test compares.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill

from looplab.exercises.exercise import Exercise

BLOCK = "<!-- {name}: written by scripts/make-handouts -->\n{text}\n<!-- end of {name} -->"
WIDTH = 118
PREDICTION_RULE = "Write the letter into the form before you run. Any prediction gets its point, right or wrong."


@dataclass(frozen=True)
class Around:
    """What a handout needs to know from elsewhere: neighbours and claims by title, and its sample table.

    `meanings` explains the table's lines or columns, `lines` gives the one that a figure of expected.yaml is read from.
    """

    previous: tuple[str, Path] | None
    following: tuple[str, Path] | None
    claims: Sequence[str]
    sample: str
    meanings: Mapping[str, str]
    lines: Mapping[str, str]


def completed(text: str, folder: Path, exercise: Exercise, around: Around) -> str:
    """Return the text of a handout in `folder` with its generated parts as they must be."""
    text = _with_rows(text, exercise)
    text = with_block(text, "links", _links(folder, around), after=r"^# .+\n")
    text = with_block(text, "prediction", _prediction(exercise, around.claims), before=r"^## Run\n")
    return with_block(text, "sample", _sample(exercise, around), before=r"^## Questions\n")


def lines_read(exercise: Exercise, around: Around) -> list[str]:
    """Return the lines of the table that the exercise asks about, in the table's order; the first names the cell."""
    first = next(iter(around.meanings))
    wanted = {first, *(_line(name, around.lines) for name in {value.name for value in exercise.values})}
    return [line for line in around.meanings if line in wanted]


def _line(name: str, lines: Mapping[str, str]) -> str:
    column = name.partition(".")[0]
    return lines.get(name, lines.get(column, column))


def _with_rows(text: str, exercise: Exercise) -> str:
    """Return the text with the card's rows on learning goals, prerequisites and a student's time."""
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


def with_block(text: str, name: str, content: str, *, after: str = "", before: str = "") -> str:
    """Return the text with that block replaced, or put after the first match of `after` or before that of `before`."""
    block = BLOCK.format(name=name, text=content)
    present = re.compile(rf"<!-- {name}: .*?<!-- end of {name} -->", re.DOTALL)
    if present.search(text):
        return present.sub(lambda _match: block, text, count=1)
    place = re.compile(after or before, re.MULTILINE)
    put = (lambda match: f"{match[0]}\n{block}\n") if after else (lambda match: f"{block}\n\n{match[0]}")
    return place.sub(put, text, count=1)


def _links(folder: Path, around: Around) -> str:
    named = (("Previous", around.previous), ("Next", around.following))
    return " · ".join(
        f"{word}: [{there[0]}]({os.path.relpath(there[1], folder)}/README.md)" for word, there in named if there
    )


def _prediction(exercise: Exercise, claims: Sequence[str]) -> str:
    lines = []
    for question in (question for question in exercise.questions if question.predicts):
        options = [f"- {option}: {text}" for option, text in question.options.items()]
        lines += [f"**{question.asks}**", "", *options, ""]
    lines.append(fill(PREDICTION_RULE, WIDTH))
    if claims:
        quoted = ", ".join(f"“{claim}”" for claim in claims)
        lines += ["", fill(f"The report judges the published claim by your runs: {quoted}.", WIDTH)]
    return "\n".join(lines)


def _sample(exercise: Exercise, around: Around) -> str:
    head = "### The table that you will read\n\nA run on another machine; yours has other figures."
    meanings = [f"- `{line}`: {around.meanings[line]}" for line in lines_read(exercise, around)]
    return "\n".join([head, "", "```text", around.sample, "```", "", *meanings])


def neighbours(exercises: Mapping[str, tuple[str, Path]], name: str) -> tuple[tuple[str, Path] | None, ...]:
    """Return title and folder of the exercises before and after `name`, None where there is none."""
    around = [None, *exercises.values(), None]
    place = list(exercises).index(name)
    return around[place], around[place + 2]
