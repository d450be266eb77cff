"""A class at once: who ran what, what it is worth, and which runs were handed in twice."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from looplab.errors import UsageError
from looplab.exercises.exercise import Exercise, exercises, read_exercise
from looplab.exercises.hand_in import HandIn, Owners, read_hand_ins
from looplab.exercises.marking import Marked, mark
from looplab.exercises.score import remarks_of, score_row
from looplab.report.stored import StoredRun, Unusable, run_order
from looplab.spec.experiment import Experiments

Row = Mapping[str, object]


@dataclass(frozen=True)
class HandedIn:
    """One run of one student; `machine` is its letter in this class, `copy_of` who handed it in first."""

    student: str
    run: StoredRun
    machine: str
    copy_of: str

    def row(self) -> Row:
        return {
            "student": self.student,
            "run_id": self.run.run_id,
            "scenario": self.run.scenario,
            "fidelity": self.run.fidelity,
            "state": "valid" if self.run.valid else "INVALID",
            "machine": self.machine,
            "same_run_as": self.copy_of,
            "remark": self.run.invalid_because,
        }


@dataclass(frozen=True)
class Scored:
    """One student's score of one exercise."""

    student: str
    exercise: str
    marked: Marked
    remarks: Sequence[str]

    def row(self) -> Row:
        first, *rest = score_row(self.student, self.marked, self.remarks).items()
        return dict([first, ("exercise", self.exercise), *rest])


@dataclass
class Collection:
    """All that the students of a class handed in; `machines` gives each machine's letter and description."""

    students: list[str] = field(default_factory=list)
    runs: list[HandedIn] = field(default_factory=list)
    unusable: list[tuple[str, Unusable]] = field(default_factory=list)
    scores: list[Scored] = field(default_factory=list)
    machines: dict[str, str] = field(default_factory=dict)

    @property
    def copies(self) -> list[HandedIn]:
        return [handed for handed in self.runs if handed.copy_of]

    @property
    def exercises(self) -> list[str]:
        return list(dict.fromkeys(scored.exercise for scored in self.scores))

    def score(self, student: str, exercise: str) -> Scored | None:
        return next((s for s in self.scores if (s.student, s.exercise) == (student, exercise)), None)

    def run_rows(self) -> list[Row]:
        """Return one row for each run or folder that is none."""
        broken = [
            {"student": student, "run_id": bad.name, "scenario": "", "fidelity": "", "state": bad.kind, "machine": "",
             "same_run_as": "", "remark": bad.meaning}
            for student, bad in self.unusable
        ]  # fmt: skip
        return [*(handed.row() for handed in self.runs), *broken]

    def newest(self) -> dict[tuple[str, str], list[HandedIn]]:
        """Return each student's newest valid run by scenario and fidelity; a copied run belongs to its first owner."""
        held: dict[tuple[str, str], dict[str, HandedIn]] = {}
        for handed in sorted(self.runs, key=lambda handed: handed.run.run_id):
            if handed.run.valid and not handed.copy_of:
                held.setdefault((handed.run.scenario, handed.run.fidelity), {})[handed.student] = handed
        order = sorted(held, key=lambda key: run_order(next(iter(held[key].values())).run))
        return {key: [held[key][student] for student in sorted(held[key])] for key in order}


def collect(root: Path, folders: Sequence[Path], experiments: Experiments) -> Collection:
    """Return what is in `folders`, each with one folder for each student; LabError (exit code 2) for one without."""
    found = Collection()
    owners = Owners()
    known = exercises(root)
    exercise_of = partial(read_exercise, root, experiments=experiments)
    for hand_in in _all_hand_ins(folders, experiments):
        found.students.append(hand_in.student)
        copies = {}
        for run in hand_in.runs:
            if isinstance(run, Unusable):
                found.unusable.append((hand_in.student, run))
                continue
            copies[run.run_id] = owners.other(run, hand_in.student)
            letter = _letter(found.machines, run.machine_text)
            found.runs.append(HandedIn(hand_in.student, run, letter, copies[run.run_id]))
        for name in _done(hand_in, known):
            found.scores.append(_scored(exercise_of(name), hand_in, copies))
    return found


def _all_hand_ins(folders: Sequence[Path], experiments: Experiments) -> Iterator[HandIn]:
    """Yield each student once; of several folders, the folder's name makes equal names differ."""
    seen: set[str] = set()
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"There is no folder {folder}.", "Name a folder with one folder for each student.")
        for hand_in in read_hand_ins(folder, experiments):
            name = hand_in.student if hand_in.student not in seen else f"{folder.name}/{hand_in.student}"
            seen.add(name)
            yield HandIn(name, hand_in.runs, hand_in.forms)


def _done(hand_in: HandIn, known: Sequence[str]) -> list[str]:
    """Return the exercises that a student did: those with a form, and those of the scenarios that were run."""
    ran = {run.scenario for run in hand_in.runs if isinstance(run, StoredRun)}
    return [name for name in known if name in hand_in.forms or (name in ran and not _serves_another(hand_in, name))]


def _serves_another(hand_in: HandIn, scenario: str) -> bool:
    """Return whether a run without a form can be there for another exercise: any form was handed in."""
    return bool(hand_in.forms) and scenario not in hand_in.forms


def _scored(exercise: Exercise, hand_in: HandIn, copies: Mapping[str, str]) -> Scored:
    form = hand_in.form(exercise.name)
    marked = mark(exercise, hand_in.runs, form.answers, form.seen)
    copied = [
        f"{run.run_id} is the very run that {owner} handed in"
        for run in marked.runs.values()
        if (owner := copies.get(run.run_id))
    ]
    unread = [form.trouble] if form.trouble else []
    return Scored(hand_in.student, exercise.name, marked, [*copied, *unread, *remarks_of(marked)])


def _letter(machines: dict[str, str], text: str) -> str:
    """Return the letter of a machine, a new one if this class has not seen it: A to Z, then A2, B2 …"""
    for letter, known in machines.items():
        if known == text:
            return letter
    turn, place = divmod(len(machines), 26)
    letter = chr(ord("A") + place) + (str(turn + 1) if turn else "")
    machines[letter] = text
    return letter


def score_rows(scores: Iterable[Scored]) -> list[Row]:
    return [scored.row() for scored in scores]
