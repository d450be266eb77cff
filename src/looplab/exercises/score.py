"""A score in words; and a class at once: one row a student and exercise, with the runs that were handed in twice."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from statistics import quantiles

from looplab.exercises.exercise import Exercise
from looplab.exercises.hand_in import DISPUTE, REASON, HandIn, earlier_owner
from looplab.exercises.marking import Mark, Marked, mark
from looplab.report.stored import StoredRun, Unusable
from looplab.system.terminal import printable

KINDS = {"run": "runs", "result": "what they show", "answer": "answers"}
Row = dict[str, object]
# Of a row: the ratios that its exercise asks for, by question, as the student's runs have them. No column of the CSV.
RATIOS = "ratios"


def score_sheet(exercise: Exercise, marked: Marked, *, student: bool = False) -> str:
    """Return every point with its reason, wrong runs apart from wrong answers, the score last.

    For a `student`, the reasons hold no measured figure and no right answer.
    """
    lines = [f"{exercise.name}: {exercise.title}"]
    for kind, title in KINDS.items():
        marks = [one for one in marked.marks if one.kind == kind]
        if marks:
            lines += ["", title]
            lines += [f"  {_points(one)}  {one.name}: {_reason(one, student)}" for one in marks]
    lines += ["", score_line(marked)]
    if marked.lost("run"):
        lines.append("A run is missing or wrong: make it again before you look at what it should show.")
    elif marked.lost("result"):
        lines.append("The runs are sound, but do not show what was expected: the reasons above say what to look at.")
    elif marked.lost("answer"):
        lines.append("The runs are right; it is the answers that are not yet.")
    return "\n".join(lines)


def score_line(marked: Marked) -> str:
    """Return "score: 5 of 6", and of how many points the machine exempts."""
    exempt = f"; {marked.exempt} more need real-time priority, which this machine refuses: not counted"
    return f"score: {marked.got} of {marked.worth}" + (exempt if marked.exempt else "")


def _points(one: Mark) -> str:
    return " – " if one.exempt else f"{one.got}/{one.worth}"


def _reason(one: Mark, student: bool) -> str:
    return one.hint if student and one.hint else one.reason


def class_rows(
    students: Iterable[tuple[str, Callable[[], HandIn]]], exercises: Mapping[str, Exercise]
) -> Iterator[Row]:
    """Yield the score of each exercise that each student did, e.g. {"student": "ada", "exercise": …, "score": 5, …}.

    A hand-in that cannot be marked is a row without an exercise, whose remark says why.
    """
    owners: dict[str, str] = {}
    for student, read in students:
        try:
            yield from list(_marked_rows(student, read(), exercises, owners))
        except Exception as error:
            # Nothing that a student wrote may end a class.
            why = " ".join(str(error).split()) or type(error).__name__
            yield _row(student, remarks=f"cannot be read: {why}")


def _row(student: str, exercise: str = "", marked: Marked | None = None, **more: object) -> Row:
    marked = marked or Marked()
    return {
        "student": student,
        "exercise": exercise,
        "score": marked.got,
        "of": marked.worth,
        "exempt": marked.exempt,
        **{f"lost_for_{kind}": marked.lost(kind) for kind in KINDS},
        **{"copied": "", "runs": "", "disputed": "", "reasons": "", "remarks": "", **more},
    }


def _marked_rows(
    student: str, hand_in: HandIn, exercises: Mapping[str, Exercise], owners: dict[str, str]
) -> Iterator[Row]:
    runs = [run for run in hand_in.runs if isinstance(run, StoredRun)]
    names = _done(hand_in, runs, exercises)
    if not names:
        damaged = [f"{run.name}: {run.meaning}" for run in hand_in.runs if isinstance(run, Unusable)]
        yield _row(student, remarks="; ".join(damaged) or "neither a run nor a form of an exercise")
    copies = {run.run_id: owner for run in runs if (owner := earlier_owner(owners, run, student))}
    for name in names:
        answers, trouble = hand_in.answers(name)
        marked = mark(exercises[name], hand_in.runs, answers)
        ids = [run.run_id for run in marked.runs.values()]
        copied = [f"{run_id} is the very run that {copies[run_id]} handed in" for run_id in ids if run_id in copies]
        lost = [f"{one.name}: {one.reason}" for one in marked.marks if one.got < one.worth]
        remarks = "; ".join([*copied, *filter(None, [trouble]), *lost])
        told = {"disputed": answers.get(DISPUTE) or "", "reasons": "; ".join(_reasons(answers))}
        found = {"copied": "yes" if copied else "", "runs": " ".join(ids), "remarks": remarks, RATIOS: marked.ratios}
        yield _row(student, name, marked, **told, **found)


def _reasons(answers: Mapping[str, object]) -> Iterator[str]:
    """Yield the reasons that a student gave for choices, which a person marks."""
    for name, text in answers.items():
        if name.endswith(REASON) and text:
            yield f"{name.removesuffix(REASON)}: {text}"


def gradebook(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield a row a student for the grade import of Moodle: per cent of the points that count, a column an exercise."""
    marked = [row for row in rows if row["exercise"]]
    exercises = sorted({str(row["exercise"]) for row in marked})
    for student in sorted({str(row["student"]) for row in marked}):
        own = {str(row["exercise"]): row for row in marked if row["student"] == student}
        yield {"username": student, **{name: _per_cent(own.get(name)) for name in exercises}}


def _per_cent(row: Row | None) -> object:
    """Return the share of the points in per cent, "" for an exercise that was not handed in."""
    return round(100 * int(str(row["score"])) / int(str(row["of"]))) if row and row["of"] else ""


def pooled_lines(rows: Iterable[Row]) -> Iterator[str]:
    """Yield for each ratio that an exercise asks for how many students' runs have it above 1, and its quartiles."""
    pairs: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        ratios = row.get(RATIOS)
        for name, ratio in ratios.items() if isinstance(ratios, Mapping) else ():
            pairs.setdefault((str(row["exercise"]), name), []).append(ratio)
    for (exercise, name), values in sorted(pairs.items()):
        low, middle, high = quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
        grew = sum(value > 1 for value in values)
        spread = f"median {middle:.3g}, half {low:.3g} to {high:.3g}"
        yield f"{exercise}, {name}: {grew} of {len(values)} pairs grew; {spread}"


def class_lines(rows: Iterable[Row]) -> Iterator[str]:
    """Yield the table in lines of 80 columns."""
    yield f"{'student':<20} {'exercise':<28} {'score':>5} {'of':>3} {'exempt':>6}"
    for row in rows:
        # A name and a remark are a student's own: no control character reaches the terminal.
        state = ", ".join(word for word in ("copied", "disputed") if row[word])
        names = f"{row['student']!s:<20.20} {row['exercise'] or row['remarks']!s:<28.28}"
        yield printable(f"{names} {row['score']:>5} {row['of']:>3} {row['exempt'] or '':>6}  {state}".rstrip())


def _done(hand_in: HandIn, runs: Iterable[StoredRun], exercises: Mapping[str, Exercise]) -> list[str]:
    """Return the exercises that a student did: those with a form, else those of the scenarios that were run."""
    scenarios = {run.scenario for run in runs}
    forms = [name for name in exercises if name in hand_in.forms]
    return forms or [name for name in exercises if name in scenarios]
