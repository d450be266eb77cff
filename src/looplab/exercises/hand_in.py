"""What a student hands in: the folders of runs and the filled-in forms, wherever they are in the student's folder."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from looplab.errors import LabError, UsageError
from looplab.exercises.exercise import Exercise
from looplab.exercises.predictions import Seen, times_of
from looplab.report.stored import StoredRun, Unusable, read_run
from looplab.spec.experiment import Experiments


@dataclass(frozen=True)
class Form:
    """The answers by question, and when each was written; `trouble` is why they cannot be read, "" if they can."""

    answers: Mapping[str, Any]
    seen: Sequence[Seen] = ()
    trouble: str = ""


@dataclass(frozen=True)
class HandIn:
    """One student's folder: its runs, and its forms by exercise."""

    student: str
    runs: Sequence[StoredRun | Unusable]
    forms: Mapping[str, Path]

    def form(self, exercise: str) -> Form:
        """Return the form of that exercise; an empty one if none was handed in or it cannot be read."""
        if exercise not in self.forms:
            return Form({})
        try:
            return read_form(self.forms[exercise])
        except LabError as error:
            return Form({}, trouble=error.message)


def read_form(path: Path) -> Form:
    """Return the answers of one form; LabError (exit code 2) if it is not `name: answer` lines."""
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (yaml.YAMLError, OSError, UnicodeDecodeError) as error:
        raise LabError(
            f"{path} cannot be read: {' '.join(str(error).split())}", "Write one `name: answer` a line."
        ) from error
    if not isinstance(document, dict):
        raise LabError(f"{path} holds no answers.", "Write one `name: answer` a line, as in the form.")
    return Form({str(key): value for key, value in document.items()}, times_of(path))


def read_hand_ins(folder: Path, experiments: Experiments) -> Iterator[HandIn]:
    """Yield one for each folder in `folder`; LabError (exit code 2) if it holds none."""
    students = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    if not students:
        raise UsageError(f"{folder} holds no student's folder.", "Give each student a folder in it.")
    for student in students:
        yield read_hand_in(student, experiments)


def read_hand_in(student: Path, experiments: Experiments) -> HandIn:
    """Return what is in one student's folder, at any depth."""
    places = sorted({path.parent for name in ("run.json", "samples.csv") for path in student.rglob(name)})
    forms = {path.stem: path for path in sorted(student.rglob("*.yaml"), reverse=True)}
    return HandIn(student.name, [read_run(place, experiments) for place in places], forms)


def answer_form(exercise: Exercise) -> str:
    """Return a YAML file to fill in: each question as a comment, its name with nothing behind it."""
    lines = [f"# {exercise.title}. Write your answer behind each colon, then: ./lab check {exercise.name}"]
    for question in exercise.questions:
        when = "Before you run: " if question.predicts else ""
        lines += ["", f"# {when}{question.asks}"]
        lines += [f"#   {option}: {text}" for option, text in question.options.items()]
        if question.value is not None:
            lines.append(f"#   (a number{f' in {question.unit}' if question.unit else ''})")
        lines.append(f"{question.name}:")
    return "\n".join(lines) + "\n"


class Owners:
    """Finds runs that several students handed in.

    The same token or the same samples are the same run. So is the same id from one machine, where runs name their
    machine; otherwise two students who started in the same second would be accused.
    """

    def __init__(self) -> None:
        self._owners: dict[str, str] = {}

    def other(self, run: StoredRun, student: str) -> str:
        """Return the student who handed in that very run before, "" if nobody did."""
        earlier = [self._owners.setdefault(mark, student) for mark in _marks_of(run)]
        return next((owner for owner in earlier if owner != student), "")


def _marks_of(run: StoredRun) -> Iterator[str]:
    token, machine = run.document.get("token"), run.document["environment"].get("machine")
    if token:
        yield f"token {token}"
    if machine or not token:
        yield f"id {run.run_id} {machine}"
    with (run.path / "samples.csv").open("rb") as samples:
        yield hashlib.file_digest(samples, "sha256").hexdigest()
