"""./lab check: score an exercise, for one student or for a folder with one folder for each student."""

import sys
from pathlib import Path

from looplab.errors import EXIT_GOOD, EXIT_INVALID, LabError
from looplab.exercises.exercise import Exercise, read_exercise
from looplab.exercises.hand_in import Form, Owners, answer_form, read_form, read_hand_ins
from looplab.exercises.marking import mark
from looplab.exercises.predictions import ANSWERS, record_predictions, stamp_form
from looplab.exercises.score import class_line, remarks_of, score_row, score_sheet
from looplab.experiments.registry import EXPERIMENTS
from looplab.lab.class_archives import STUDENTS_MARK
from looplab.report.shell import write_csv
from looplab.report.stored import StoredRun, Unusable, read_run, run_folder, run_folders
from looplab.system.terminal import fitted


def check(root: Path, name: str, run: str | None = None, *, student: bool = False) -> int:
    """Score exercise `name`. `run` is a run's id or folder, or a folder of students' folders.

    For a `student`, the score says right or not right and never the figure; so it does in a students' checkout.
    Exit code 0 where every point is given (of a class: where everybody could be marked), else 1.
    """
    exercise = read_exercise(root, name, EXPERIMENTS)
    folder = _class_folder(root, run)
    if folder is not None:
        return _check_class(exercise, folder)
    return _check_one(root, exercise, run, student or (root / STUDENTS_MARK).exists())


def _check_one(root: Path, exercise: Exercise, run: str | None, student: bool) -> int:
    path = root / ANSWERS / f"{exercise.name}.yaml"
    if exercise.questions and not path.exists():
        path.parent.mkdir(exist_ok=True)
        path.write_text(answer_form(exercise), encoding="utf-8")
        print(f"A form for your answers is in {path.relative_to(root)}\n")
    form = Form({})
    if path.exists():
        record_predictions(root)
        stamp_form(path, exercise.predictions)
        form = read_form(path)
    marked = mark(exercise, _runs(root, exercise, run), form.answers, form.seen)
    print(fitted(score_sheet(exercise, marked, student=student), sys.stdout, " " * 7))
    return EXIT_GOOD if marked.got == marked.worth else EXIT_INVALID


def _check_class(exercise: Exercise, folder: Path) -> int:
    rows: list[dict[str, object]] = []
    owners = Owners()
    unread = 0
    for hand_in in read_hand_ins(folder, EXPERIMENTS):
        form = hand_in.form(exercise.name)
        if form.trouble:
            print(f"{hand_in.student}: {form.trouble}")
        marked = mark(exercise, hand_in.runs, form.answers, form.seen)
        remarks = remarks_of(marked)
        for used in marked.runs.values():
            if owner := owners.other(used, hand_in.student):
                remarks.insert(0, f"{used.run_id} is the very run that {owner} handed in")
        unread += not hand_in.runs and not form.answers
        rows.append(score_row(hand_in.student, marked, remarks))
        print(class_line(hand_in.student, marked))
        for remark in remarks:
            print(fitted(f"    {remark}", sys.stdout, " " * 8))
    sheet = folder / f"scores-{exercise.name}.csv"
    write_csv(sheet, rows)
    print(f"\n{len(rows)} students, {sheet}")
    return EXIT_INVALID if unread else EXIT_GOOD


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


def _class_folder(root: Path, run: str | None) -> Path | None:
    """Return the folder of students' folders that `run` names, None if it names a run."""
    if run is None or not Path(run).is_dir():
        return None
    folder = Path(run)
    if folder.resolve().parent == (root / "results").resolve():
        return None
    return None if (folder / "run.json").exists() or (folder / "samples.csv").exists() else folder
