"""A score in words."""

from looplab.exercises.exercise import Exercise
from looplab.exercises.marking import Mark, Marked

KINDS = {"run": "runs", "result": "what they show", "answer": "answers"}


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
