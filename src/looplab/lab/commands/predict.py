"""./lab predict: make the form of an exercise, ask for its prediction, and note when it was made."""

import re
from datetime import UTC, datetime
from pathlib import Path

from looplab.errors import EXIT_GOOD, UsageError, did_you_mean
from looplab.exercises.forms import FORM_FILE, PREDICTED, form_of, make_form
from looplab.system.terminal import say

# In a form: the question, its options, and the line with the answer.
_ASKED = re.compile(r"^# Before you run: (.+)\n((?:#   .+\n)+)([\w-]+):.*$", re.MULTILINE)


def predict(root: Path, name: str, answer: str = "") -> int:
    """Write the prediction of the exercise `name` into its form: `answer`, or what is typed.

    Raises LabError (exit code 2) for an unknown exercise, and for an answer that is none of the options.
    """
    make_form(root, name)
    form = form_of(root, name)
    if not form.is_file():
        known = [path.parent.name for path in root.glob(f"*/*/*/{FORM_FILE}")]
        raise UsageError(f"There is no exercise {name!r}.", f"{did_you_mean(name, known)}./lab list names all.")
    text = form.read_text(encoding="utf-8")
    asked = _ASKED.search(text)
    if not asked:
        raise UsageError(f"answers/{form.name} asks for no prediction.", "Delete it to have a new one made.")
    question, listed, variable = asked.groups()
    options = dict(re.findall(r"^#   (\S+): (.+)$", listed, re.MULTILINE))
    if not answer:
        say("\n".join([question, *(f"  {key}: {option}" for key, option in options.items())]))
        answer = _typed()
    if answer not in options:
        raise UsageError(f"{answer!r} is none of {', '.join(options)}.", f"For example: ./lab predict {name} a")
    line = f"{variable}: {answer}"
    text = text[: asked.start(3)] + line + text[asked.end() :]
    text = re.sub(rf"^{PREDICTED}:.*\n", "", text, flags=re.MULTILINE)
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    form.write_text(text.replace(f"{line}\n", f"{line}\n{PREDICTED}: {now}\n", 1), encoding="utf-8")
    say(f"{options[answer]}: written into answers/{form.name}. Now run it.")
    return EXIT_GOOD


def _typed() -> str:
    try:
        return input("Your choice: ").strip()
    except EOFError:
        return ""
