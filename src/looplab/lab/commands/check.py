"""./lab check and ./lab hand-in: score an exercise or a class, and pack what a student hands in."""

import contextlib
import re
import resource
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from looplab.errors import EXIT_GOOD, EXIT_INVALID, LabError, UsageError
from looplab.exercises.choice import RUNS_LINE
from looplab.exercises.exercise import Exercise, exercises, read_exercise
from looplab.exercises.forms import form_of, make_form
from looplab.exercises.hand_in import hand_ins, read_form, with_runs, write_hand_in
from looplab.exercises.marking import Marked, mark
from looplab.exercises.score import RATIOS, class_lines, class_rows, gradebook, pooled_lines, score_sheet
from looplab.experiments.registry import EXPERIMENTS
from looplab.lab.class_archives import STUDENTS_MARK
from looplab.report.csv_rows import write_csv
from looplab.report.stored import StoredRun, Unusable, read_run, run_folder, run_folders
from looplab.system.terminal import fitted

# The table of a class is written here, and what Moodle imports.
SHEET, GRADES = Path("report/class.csv"), Path("report/moodle.csv")
# Less than the container of the report has (report_container.py).
MOST_MARKING_BYTES = 1 << 30


def check(root: Path, names: Sequence[str], *, student: bool = False) -> int:
    """Score an exercise, perhaps by one run of it: `names` are both. Or mark a class: `names` are its places.

    For a `student`, the score says right or not right and never the figure; so it does in a students' checkout.
    Exit code 0 where every point is given, or where a class was marked, else 1.
    """
    places = [Path(name) for name in names]
    if all(place.suffix == ".zip" or place.is_dir() for place in places):
        return _check_class(root, places)
    name, *runs = names
    if len(runs) > 1:
        raise UsageError(f"{' '.join(runs)}: one run at most.", "Name an exercise and a run, or folders of a class.")
    exercise = read_exercise(root, name, EXPERIMENTS)
    return _check_one(root, exercise, runs[0] if runs else None, student or (root / STUDENTS_MARK).exists())


def hand_in(root: Path, scenario: str, name: str) -> int:
    """Put the runs that count for an exercise, and its form, into NAME.zip beside the exercises that are there."""
    exercise = read_exercise(root, scenario, EXPERIMENTS)
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*", name):
        raise UsageError(f"--name {name!r}: letters, digits, dots and dashes.", "For example --name ada.")
    form = form_of(root, exercise.name)
    answers = read_form(form) if form.is_file() else {}
    marked = mark(exercise, _runs(root), answers)
    _keep_runs(form, exercise, answers, marked)
    file = root / f"{name}.zip"
    others = write_hand_in(file, exercise.name, list(marked.runs.values()), form)
    missing = [wanted.handle for wanted in exercise.runs if wanted.handle not in marked.runs]
    print(f"{file.name}: {len(marked.runs)} of {len(exercise.runs)} runs, {'the' if form.is_file() else 'no'} form.")
    if exercise.name in others:
        print(f"  They replace {exercise.name} as it was handed in before.")
    if beside := [other for other in others if other != exercise.name]:
        print(f"  It also holds {', '.join(beside)}.")
    for handle in missing:
        print(f"  The run “{handle}” is missing or wrong: `./lab check {scenario}` names the reason.")
    return EXIT_INVALID if missing or not form.is_file() else EXIT_GOOD


def _check_one(root: Path, exercise: Exercise, run: str | None, student: bool) -> int:
    path = form_of(root, exercise.name)
    if made := make_form(root, exercise.name):
        print(f"A form for your answers is in {made.relative_to(root)}\n")
    answers = read_form(path) if path.exists() else {}
    named = [_named(root, exercise, run)] if run else []
    marked = mark(exercise, [*named, *_runs(root)], answers, *named)
    print(fitted(score_sheet(exercise, marked, student=student), sys.stdout, " " * 7))
    if not named or RUNS_LINE not in answers:
        _keep_runs(path, exercise, answers, marked)
    elif answers[RUNS_LINE] != [run.run_id for run in marked.runs.values()]:
        print(f"Your form names other runs. To hand in these, delete its line `{RUNS_LINE}:` and repeat this command.")
    return EXIT_GOOD if marked.got == marked.worth else EXIT_INVALID


def _keep_runs(form: Path, exercise: Exercise, answers: Mapping[str, Any], marked: Marked) -> None:
    """Write into a form with answers which runs they belong to, once all are there."""
    ids = [run.run_id for run in marked.runs.values()]
    answered = any(answers.get(one.name) not in (None, "") for one in exercise.questions if not one.predicts)
    if answered and len(ids) == len(exercise.runs) and answers.get(RUNS_LINE) != ids:
        try:
            form.write_text(with_runs(form.read_text(encoding="utf-8"), ids), encoding="utf-8")
            print(f"answers/{form.name} names these runs from now on: your answers belong to them.")
        except OSError as error:
            print(f"answers/{form.name} cannot name these runs ({error.strerror}): make it yours, or newer ones count.")


@contextlib.contextmanager
def _memory_limit(more_bytes: int) -> Iterator[None]:
    """Raise MemoryError where this process takes so much more: a row of the table, where the kernel would end all."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    taken_kb = int(Path("/proc/self/status").read_text().partition("VmData:")[2].split()[0])
    resource.setrlimit(resource.RLIMIT_DATA, (1024 * taken_kb + more_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def _check_class(root: Path, places: Sequence[Path]) -> int:
    known = {name: read_exercise(root, name, EXPERIMENTS) for name in exercises(root)}
    with tempfile.TemporaryDirectory() as unpacked, _memory_limit(MOST_MARKING_BYTES):
        rows = list(class_rows(hand_ins(places, Path(unpacked), EXPERIMENTS), known))
    print("\n".join(class_lines(rows)))
    if pooled := list(pooled_lines(rows)):
        print("\n".join(["", "The runs of the class together:", *pooled]))
    sheet = root / SHEET
    sheet.parent.mkdir(exist_ok=True)
    write_csv(sheet, [{name: one for name, one in row.items() if name != RATIOS} for row in rows])
    write_csv(root / GRADES, list(gradebook(rows)))
    print(f"\nEach lost point and its reason: {SHEET}; for Moodle's grade import: {GRADES}")
    return EXIT_GOOD


def _runs(root: Path) -> list[StoredRun | Unusable]:
    """Return what is in results/."""
    results = root / "results"
    return [read_run(path, EXPERIMENTS) for path in run_folders(results)] if results.is_dir() else []


def _named(root: Path, exercise: Exercise, run: str) -> StoredRun:
    """Return the run by which an exercise is to be marked; LabError if it is none of those that are wanted."""
    named = read_run(run_folder(root / "results", run), EXPERIMENTS)
    if isinstance(named, Unusable):
        raise LabError(f"{named.name} cannot be marked: it is {named.kind}.", named.meaning)
    if named.scenario not in [wanted.scenario for wanted in exercise.runs]:
        wanted = ", ".join(dict.fromkeys(w.scenario for w in exercise.runs))
        raise LabError(f"{named.run_id} is a run of {named.scenario}.", f"{exercise.name} wants runs of {wanted}.")
    return named
