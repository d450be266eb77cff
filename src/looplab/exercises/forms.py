"""The form of an exercise: a file beside its handout, copied to answers/ for the student. Standard library only."""

import re
import shutil
from pathlib import Path

# Written by scripts/make-handouts.
FORM_FILE = "form.yaml"
ANSWERS = Path("answers")
# The line with the time of a prediction, as run ids have it.
PREDICTED = "predicted"


def form_of(root: Path, name: str) -> Path:
    """Return where a student's form of that exercise is."""
    return root / ANSWERS / f"{name}.yaml"


def make_form(root: Path, name: str) -> Path | None:
    """Copy the form beside the handout `name` to answers/, unless the student has one; return it if it is new."""
    form = form_of(root, name)
    blank = next(root.glob(f"*/*/{name}/{FORM_FILE}"), None)
    if form.exists() or blank is None:
        return None
    form.parent.mkdir(exist_ok=True)
    shutil.copyfile(blank, form)
    return form


def paper_questions(handout: str) -> list[str]:
    """Return the numbered questions of a handout's text, each in one line."""
    on_paper = handout.partition("\n## Questions\n")[2].partition("\n## ")[0]
    return [" ".join(one.split()) for one in re.findall(r"^\d+\. .+(?:\n +.+)*", on_paper, re.MULTILINE)]
