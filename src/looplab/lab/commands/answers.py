"""./lab answers: the questions of an exercise, each with its answer. For teachers."""

import re
from pathlib import Path
from textwrap import fill

from looplab.errors import EXIT_GOOD, UsageError
from looplab.exercises.forms import paper_questions
from looplab.lab.class_archives import ANSWERS
from looplab.run.table import WIDTH

# How a teacher reads the answers.
NOTE = (
    "What is bold, or means that, is worth 1 point; the whole with its reason 2. “2:” says what the second one needs."
    " ./lab check marks the form by the student's own run. Figures are from 2 cores and show orders of magnitude."
)


def answers(root: Path, name: str) -> int:
    """Print each question of the exercise `name` with its answer. UsageError if there is no such file of answers."""
    handout = next(root.glob(f"*/*/{name}/README.md"), None)
    if handout is None:
        raise UsageError(f"There is no exercise {name!r}.", "./lab list prints all.")
    file = handout.with_name(ANSWERS)
    if not file.is_file():
        raise UsageError(
            f"{name} has no answers here.", "They are in the teachers' archive of ./lab bundle --students."
        )
    given = file.read_text(encoding="utf-8").strip().split("\n\n")
    for question, answer in zip(questions(handout.read_text(encoding="utf-8")), given, strict=True):
        print(_wrapped(question), _wrapped(answer, "    "), "", sep="\n")
    print(_wrapped(NOTE))
    return EXIT_GOOD


def questions(handout: str) -> list[str]:
    """Return the prediction, the questions on paper, and what to find out in “Look inside”, as answers.txt has them."""
    [predicted] = re.findall(r"<!--prediction:.*?\*\*(.+?)\*\*", handout, re.DOTALL)
    inside = handout.partition("\n## Look inside\n")[2].partition("\n## ")[0].rpartition("```\n")[2]
    asked = (f"Prediction: {predicted}", *paper_questions(handout), f"Look inside: {inside}")
    return [" ".join(one.split()) for one in asked]


def _wrapped(text: str, indent: str = "") -> str:
    return fill(text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
