"""./lab check: score an exercise, for one student or for a folder with one folder for each student."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from looplab.errors import EXIT_GOOD, EXIT_INVALID, EXIT_USAGE, LabError
from looplab.exercises.exercise import Exercise, read_exercise
from looplab.exercises.marking import Marked, mark
from looplab.experiments.registry import EXPERIMENTS
from looplab.report.shell import write_csv
from looplab.report.stored import StoredRun, Unusable, read_run, run_folder, run_folders
from looplab.system.terminal import fitted

ANSWERS = Path("answers")
KINDS = {"run": "runs", "result": "what they show", "answer": "answers"}


@dataclass(frozen=True)
class HandIn:
    """What one student handed in."""

    student: str
    runs: Sequence[StoredRun | Unusable]
    answers: Mapping[str, Any]


def check(root: Path, name: str, run: str | None = None) -> int:
    """Score exercise `name`. `run` is a run's id or folder, or a folder of students' folders.

    Exit code 0 where every point is given (of a class: where everybody could be marked), else 1.
    """
    exercise = read_exercise(root, name, EXPERIMENTS)
    folder = _class_folder(root, run)
    if folder is not None:
        return _check_class(exercise, folder)
    return _check_one(root, exercise, run)


def _check_one(root: Path, exercise: Exercise, run: str | None) -> int:
    form = root / ANSWERS / f"{exercise.name}.yaml"
    if exercise.questions and not form.exists():
        form.parent.mkdir(exist_ok=True)
        form.write_text(answer_form(exercise), encoding="utf-8")
        print(f"A form for your answers is in {form.relative_to(root)}\n")
    marked = mark(exercise, _runs(root, exercise, run), _answers(form) if form.exists() else {})
    print(fitted(score_sheet(exercise, marked), sys.stdout, " " * 7))
    return EXIT_GOOD if marked.got == marked.worth else EXIT_INVALID


def _check_class(exercise: Exercise, folder: Path) -> int:
    rows: list[dict[str, object]] = []
    tokens: dict[str, str] = {}
    unread = 0
    for hand_in in _hand_ins(exercise, folder):
        marked = mark(exercise, hand_in.runs, hand_in.answers)
        remarks = [f"{m.name}: {m.reason}" for m in marked.marks if m.got < m.worth]
        for used in marked.runs.values():
            owner = tokens.setdefault(str(used.document.get("token") or used.run_id), hand_in.student)
            if owner != hand_in.student:
                remarks.insert(0, f"{used.run_id} is the very run that {owner} handed in")
        unread += not hand_in.runs and not hand_in.answers
        rows.append(_score_row(hand_in.student, marked, remarks))
        print(class_line(hand_in.student, marked))
        for remark in remarks:
            print(fitted(f"    {remark}", sys.stdout, " " * 8))
    if not rows:
        raise LabError(f"{folder} holds no student's folder.", "Give each student a folder in it.", EXIT_USAGE)
    sheet = folder / f"scores-{exercise.name}.csv"
    write_csv(sheet, rows)
    print(f"\n{len(rows)} students, {sheet}")
    return EXIT_INVALID if unread else EXIT_GOOD


def score_sheet(exercise: Exercise, marked: Marked) -> str:
    """Return every point with its reason, wrong runs apart from wrong answers, the score last."""
    lines = [f"{exercise.name}: {exercise.title}"]
    for kind, title in KINDS.items():
        marks = [found for found in marked.marks if found.kind == kind]
        if marks:
            lines += ["", title]
            lines += [f"  {found.got}/{found.worth}  {found.name}: {found.reason}" for found in marks]
    lines += ["", f"score: {marked.got} of {marked.worth}"]
    if marked.lost("run"):
        lines.append("A run is missing or wrong: make it again before you look at what it should show.")
    elif marked.lost("result"):
        lines.append("The runs are sound, but do not show what was expected: the reasons above say what to look at.")
    elif marked.lost("answer"):
        lines.append("The runs are right; it is the answers that are not yet.")
    return "\n".join(lines)


def class_line(student: str, marked: Marked) -> str:
    lost = [f"{marked.lost(kind)} for {title}" for kind, title in KINDS.items() if marked.lost(kind)]
    return f"{student:<24} {marked.got:>3} of {marked.worth}" + (f"   lost: {', '.join(lost)}" if lost else "")


def answer_form(exercise: Exercise) -> str:
    """Return a YAML file to fill in: each question as a comment, its name with nothing behind it."""
    lines = [f"# {exercise.title}. Write your answer behind each colon, then: ./lab check {exercise.name}"]
    for question in exercise.questions:
        lines += ["", f"# {question.asks}"]
        lines += [f"#   {option}: {text}" for option, text in question.options.items()]
        if question.value is not None:
            lines.append(f"#   (a number{f' in {question.unit}' if question.unit else ''})")
        lines.append(f"{question.name}:")
    return "\n".join(lines) + "\n"


def _runs(root: Path, exercise: Exercise, run: str | None) -> list[StoredRun | Unusable]:
    """Return all runs in results/; if `run` is named, of its scenario and fidelity that one alone."""
    results = root / "results"
    everything = [read_run(path, EXPERIMENTS) for path in run_folders(results)] if results.is_dir() else []
    if run is None:
        return everything
    named = read_run(run_folder(results, run), EXPERIMENTS)
    if isinstance(named, Unusable):
        raise LabError(f"{named.name} cannot be marked: it is {named.kind}.", named.meaning)
    if named.scenario not in [wanted.scenario for wanted in exercise.runs]:
        wanted = ", ".join(dict.fromkeys(w.scenario for w in exercise.runs))
        raise LabError(f"{named.run_id} is a run of {named.scenario}.", f"{exercise.name} wants runs of {wanted}.")
    return [*(other for other in everything if not _competes(other, named)), named]


def _competes(run: StoredRun | Unusable, named: StoredRun) -> bool:
    """Return whether `run` could be marked in place of the run that was named."""
    return not isinstance(run, Unusable) and (run.scenario, run.fidelity) == (named.scenario, named.fidelity)


def _answers(path: Path) -> dict[str, Any]:
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (yaml.YAMLError, OSError, UnicodeDecodeError) as error:
        raise LabError(
            f"{path} cannot be read: {' '.join(str(error).split())}", "Write one `name: answer` a line."
        ) from error
    if not isinstance(document, dict):
        raise LabError(f"{path} holds no answers.", "Write one `name: answer` a line, as in the form.")
    return {str(key): value for key, value in document.items()}


def _class_folder(root: Path, run: str | None) -> Path | None:
    """Return the folder of students' folders that `run` names, None if it names a run."""
    if run is None or not Path(run).is_dir():
        return None
    folder = Path(run)
    if folder.resolve().parent == (root / "results").resolve():
        return None
    return None if (folder / "run.json").exists() or (folder / "samples.csv").exists() else folder


def _hand_ins(exercise: Exercise, folder: Path) -> Iterator[HandIn]:
    for student in sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")):
        places = sorted({path.parent for name in ("run.json", "samples.csv") for path in student.rglob(name)})
        forms = sorted(student.rglob(f"{exercise.name}.yaml"))
        try:
            answers = _answers(forms[0]) if forms else {}
        except LabError as error:
            print(f"{student.name}: {error.message}")
            answers = {}
        yield HandIn(student.name, [read_run(place, EXPERIMENTS) for place in places], answers)


def _score_row(student: str, marked: Marked, remarks: Sequence[str]) -> dict[str, object]:
    return {
        "student": student,
        "score": marked.got,
        "of": marked.worth,
        **{f"lost_for_{kind}": marked.lost(kind) for kind in KINDS},
        "runs": " ".join(run.run_id for run in marked.runs.values()),
        "remarks": "; ".join(remarks),
    }
