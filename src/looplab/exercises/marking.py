"""Mark one exercise: which runs count, what they show, which answers are right, and why for each point."""

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from looplab.exercises.choice import choose, command, faults, priority_refused
from looplab.exercises.exercise import Exercise, Point, Question, Value, WantedRun, WantedTreatment
from looplab.exercises.forms import PREDICTED
from looplab.report.cell import Key, MeasuredCell
from looplab.report.samples import read_cells
from looplab.report.stored import StoredRun, Unusable
from looplab.spec.columns import Latency
from looplab.spec.experiment import Bound

NOT_COUNTED = "not counted: it needs real-time priority, which this machine refuses"
AS_PUBLISHED = "Messages or the connection were lost: that is the published result"
# A wrong run is another thing than a wrong answer.
RUN, RESULT, ANSWER = "run", "result", "answer"


@dataclass(frozen=True)
class Mark:
    """`got` of `worth` points for one thing, and the reason.

    `hint` is what a student reads in its place if it holds a measured figure or a right answer. `exempt` points are
    not counted, because the machine cannot do what they need.
    """

    kind: str
    name: str
    got: int
    worth: int
    reason: str
    hint: str = ""
    exempt: int = 0


@dataclass
class Marked:
    """An exercise marked: its marks, and the runs they are based on."""

    marks: list[Mark] = field(default_factory=list)
    runs: dict[str, StoredRun] = field(default_factory=dict)
    # What the runs have of each ratio that is asked for, by question.
    ratios: dict[str, float] = field(default_factory=dict)

    @property
    def got(self) -> int:
        return sum(mark.got for mark in self.marks)

    @property
    def worth(self) -> int:
        return sum(mark.worth for mark in self.marks)

    @property
    def exempt(self) -> int:
        """How many points are not counted, because the machine refuses real-time priority."""
        return sum(mark.exempt for mark in self.marks)

    def lost(self, kind: str) -> int:
        """Return the points not given for marks of that kind."""
        return sum(mark.worth - mark.got for mark in self.marks if mark.kind == kind)


class Unjudged(Exception):
    """A run, point or answer cannot be judged; the text is the reason."""


Cells = Mapping[Key, MeasuredCell]


def mark(
    exercise: Exercise, runs: Sequence[StoredRun | Unusable], answers: Mapping[str, Any], named: StoredRun | None = None
) -> Marked:
    """Return the marks for `runs` (in any order, of any scenario) and the answers by question name.

    The runs that the form names count while they are sound, else the newest; or `named` and those made next to it.
    """
    marked = Marked()
    chosen = choose(exercise, runs, {} if named else answers, named)
    cells: dict[str, Cells] = {}
    main = chosen.get(exercise.runs[-1].handle)
    for wanted in exercise.runs:
        run = chosen.get(wanted.handle)
        try:
            if run is None:
                raise Unjudged(f"there is no run of {wanted.scenario}: {command(wanted, wanted.fidelity)}")
            cells[wanted.handle], exempt = _sound_cells(exercise, wanted, run, main)
        except Unjudged as why:
            marked.marks.append(Mark(RUN, wanted.handle, 0, 1, str(why)))
            continue
        marked.runs[wanted.handle] = run
        reason = f"{run.run_id}: {NOT_COUNTED}" if exempt else run.run_id
        marked.marks.append(Mark(RUN, wanted.handle, int(not exempt), int(not exempt), reason, exempt=int(exempt)))
    judge = _Judge(marked.runs, cells, str(answers.get(PREDICTED) or ""))
    marked.marks += [judge.point(point) for point in exercise.points]
    marked.marks += [judge.question(question, answers.get(question.name)) for question in exercise.questions]
    for question in exercise.questions:
        with contextlib.suppress(Unjudged):
            if question.figure and question.figure.over:
                marked.ratios[question.name] = judge.figure(question.figure)
    return marked


def _sound_cells(exercise: Exercise, wanted: WantedRun, run: StoredRun, main: StoredRun | None) -> tuple[Cells, bool]:
    """Return a run's cells, and whether it is INVALID only because the machine refuses what the exercise is about.

    Raises Unjudged for a run that cannot be judged by.
    """
    wrong, exempt = faults(exercise, wanted, run, main)
    if wrong:
        raise Unjudged(wrong[0])
    try:
        return read_cells(run), exempt
    except Unusable as damaged:
        raise Unjudged(f"{run.run_id} is damaged: {damaged.meaning}") from damaged


class _Judge:
    """Judges points and answers by the figures of the sound runs, which it has by handle."""

    def __init__(self, runs: Mapping[str, StoredRun], cells: Mapping[str, Cells], predicted: str) -> None:
        self._runs, self._predicted_at = runs, predicted
        self._cells = cells
        self._refused = any(priority_refused(run) for run in runs.values())

    def point(self, point: Point) -> Mark:
        wants = point.wants
        try:
            good, seen = self._treatment(wants) if isinstance(wants, WantedTreatment) else self._bound(wants)
            brief, advice = ("shown", "") if good else ("not shown", f" {point.otherwise}".rstrip())
        except Unjudged as why:
            good, seen, brief, advice = False, f"not judged, {why}", "", ""
        if not good and point.or_lost and isinstance(wants, Bound) and self._lost(wants.figure):
            good, seen, brief, advice = True, f"{seen}. {AS_PUBLISHED}", AS_PUBLISHED, ""
        if not brief:
            # What a run should show, named before there is one, would answer the prediction.
            return self._mark(RESULT, point, False, seen, "not judged")
        return self._mark(RESULT, point, good, f"{point.says}: {seen}.{advice}", f"{point.says}: {brief}.{advice}")

    def question(self, question: Question, answer: Any) -> Mark:
        given = "" if answer is None else str(answer).strip()
        if not given:
            return self._mark(ANSWER, question, False, "not answered")
        if question.figure is None and given not in question.options:
            return self._mark(ANSWER, question, False, f"{answer!r} is none of {', '.join(question.options)}")
        if question.predicts:
            return self._mark(ANSWER, question, True, self._predicted())
        try:
            if question.reasoned and not question.right:
                return self._mark(ANSWER, question, True, "chosen; your teacher marks it")
            good, why = self._choice(question, given) if question.figure is None else self._figure(question, given)
        except Unjudged as why_not:
            return self._mark(
                ANSWER, question, False, f"not judged, {why_not}", "not judged: a run is missing or wrong"
            )
        return self._mark(ANSWER, question, good, why, "right" if good else "not right")

    def _predicted(self) -> str:
        """Return when the prediction was made, by the time that `./lab predict` wrote and the start of the runs."""
        first = min((run.run_id for run in self._runs.values()), default="")
        if self._predicted_at and first and self._predicted_at > first:
            return f"predicted after {first} had begun; compare it with what you found"
        return "predicted; compare it with what you found"

    def _mark(self, kind: str, entry: Point | Question, good: bool, reason: str, hint: str = "") -> Mark:
        """Return a mark; a point that the machine cannot give is not counted."""
        if not good and entry.needs and self._refused:
            return Mark(kind, entry.name, 0, 0, NOT_COUNTED, exempt=entry.worth)
        return Mark(kind, entry.name, entry.worth if good else 0, entry.worth, reason, hint)

    def _lost(self, value: Value) -> bool:
        """Return whether the cell of a value lost messages or the connection."""
        cell = self._cells.get(value.run, {}).get(value.cell.key)
        return cell is not None and (cell.count("lost") > 0 or bool(cell.document.get("disconnects")))

    def _treatment(self, wants: WantedTreatment) -> tuple[bool, str]:
        entry = self._run(wants.run).treatment(wants.what)
        if entry is None:
            return False, f"the run records no treatment “{wants.what}”"
        state = str(entry["found"])
        if not wants.found:
            return bool(entry["verified"]), f"wanted {entry['wanted']}, found {state}"
        return state == wants.found, f"found {state}"

    def _bound(self, wants: Bound[Value]) -> tuple[bool, str]:
        figure, over = wants.figure, wants.figure.over
        value = self.figure(figure)
        seen = f"{figure} is {value:.4g}"
        if over is not None:
            one, other = _shown(figure, self._value(figure)), _shown(over, self._value(over))
            seen = f"{one} against {other}, {value:.2f} times"
        low, high = wants.ends
        good = low <= value <= high
        return good, seen if good else f"{seen}; expected {wants}"

    def _figure(self, question: Question, answer: str) -> tuple[bool, str]:
        assert question.figure is not None
        value = self.figure(question.figure)
        if math.isinf(value):
            raise Unjudged(f"no message was answered at {question.figure.cell}")
        try:
            given = float(answer.replace(",", ".").removesuffix(question.unit).strip())
        except ValueError:
            return False, f"{answer!r} is no number"
        slack = max(question.tolerance * abs(value), 0.5 * 10.0**-question.figure.digits)
        unit = f" {question.unit}" if question.unit else ""
        return abs(given - value) <= slack, f"{given:g}{unit}; your run has {value:.4g}{unit} ({question.figure})"

    def figure(self, figure: Value) -> float:
        """Return a figure, divided by the other one that it names. Raises Unjudged."""
        other = self._value(figure.over) if figure.over else 1.0
        return self._value(figure) / other if other else math.inf

    def _choice(self, question: Question, answer: str) -> tuple[bool, str]:
        if question.found:
            entry = self._run(question.found.run).treatment(question.found.what)
            state = str(entry["found"]) if entry else "no such treatment"
            return question.options[answer] == state, f"{answer}: {question.options[answer]}; your run has {state}"
        if question.right:
            return answer == question.right, f"{answer}; right is {question.right}: {question.options[question.right]}"
        values = {option: self._value(figure) for option, figure in question.largest.items()}
        # Those that a table prints alike are alike.
        shown = {option: round(value, question.largest[option].digits) for option, value in values.items()}
        right = [option for option in shown if shown[option] == max(shown.values())]
        measured = ", ".join(f"{option}: {_shown(question.largest[option], value)}" for option, value in values.items())
        return answer in right, f"{answer}; your runs say {' or '.join(right)} ({measured})"

    def _run(self, handle: str) -> StoredRun:
        if handle not in self._runs:
            raise Unjudged(f"the run “{handle}” is missing or wrong")
        return self._runs[handle]

    def _value(self, value: Value) -> float:
        """Return a figure, a latency in ms: infinite for a latency of messages that were never answered."""
        run = self._run(value.run)
        cell = self._cells[value.run].get(value.cell.key)
        if cell is None:
            raise Unjudged(f"{run.run_id} has no cell at {value.cell}")
        figure = cell.figure(value.name)
        if figure is not None:
            return figure / 1000 if value.unit == "us" else figure
        column = cell.columns.get(value.name.partition(".")[0])
        unanswered = cell.valid and cell.total().of(cell) and not cell.count("answered")
        if isinstance(column, Latency) and column.endless and unanswered:
            return math.inf
        raise Unjudged(f"{run.run_id} holds no {value.name} at {value.cell}")


def _shown(value: Value, figure: float) -> str:
    unit = "ms" if value.unit == "us" else value.unit
    return f"{value.name} of {value.run} {figure:.4g} {unit}".rstrip()
