"""Mark one exercise: which runs count, what they show, which answers are right, and why for each point."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from looplab.exercises.exercise import Band, Exercise, Point, Question, Value, WantedRun, WantedTreatment
from looplab.exercises.refusals import priority_alone_refused, priority_refused
from looplab.report.cell import Key, MeasuredCell
from looplab.report.samples import read_cells
from looplab.report.stored import StoredRun, Unusable
from looplab.spec.columns import Latency
from looplab.treatments.judgement import on_off

NOT_COUNTED = "not counted: it needs real-time priority, which this machine refuses"
AS_PUBLISHED = "Messages or the connection were lost: that is the published result"
# A wrong run is another thing than a wrong answer.
RUN, RESULT, ANSWER = "run", "result", "answer"


@dataclass(frozen=True)
class Mark:
    """`got` of `worth` points for one thing, and the reason.

    `hint` is what a student may read of the reason: no measured figure, no right answer. `exempt` points are not
    counted, because the machine cannot do what they need.
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
    """An exercise marked: its marks and the runs that they are based on."""

    marks: list[Mark] = field(default_factory=list)
    runs: dict[str, StoredRun] = field(default_factory=dict)

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
    """A point cannot be judged; the text is the reason."""


def mark(
    exercise: Exercise,
    runs: Sequence[StoredRun | Unusable],
    answers: Mapping[str, Any],
) -> Marked:
    """Return the marks for `runs` (in any order, any scenario) and the answers by question name."""
    result = Marked()
    cells: dict[str, Mapping[Key, MeasuredCell]] = {}
    main = exercise.runs[-1]
    chosen = _choose(exercise, main, runs, None)
    for wanted in exercise.runs:
        run = chosen if wanted is main else _choose(exercise, wanted, runs, chosen)
        entry, read = _run_mark(exercise, wanted, run, chosen, runs)
        if run is not None and read is not None:
            cells[wanted.handle] = read
            result.runs[wanted.handle] = run
        result.marks.append(entry)
    judge = _Judge(result.runs, cells)
    result.marks += [judge.point(point) for point in exercise.points]
    result.marks += [judge.question(question, answers.get(question.name)) for question in exercise.questions]
    return result


def _run_mark(
    exercise: Exercise,
    wanted: WantedRun,
    run: StoredRun | None,
    main: StoredRun | None,
    runs: Sequence[StoredRun | Unusable],
) -> tuple[Mark, Mapping[Key, MeasuredCell] | None]:
    """Return the mark for one wanted run, and its cells if it can be judged by."""
    if run is None:
        return _run_lost(wanted, _no_run(wanted, runs)), None
    wrong = [why for good, why in _checks(exercise, wanted, run, main) if why and not good]
    # INVALID for no other reason than that the machine refuses what the exercise is about.
    exempt = wanted.needs_priority and not run.valid and priority_alone_refused(run)
    if wrong and not (exempt and wrong == [_invalid(run)]):
        return _run_lost(wanted, wrong[0]), None
    read = read_cells(run)
    if isinstance(read, Unusable):
        return _run_lost(wanted, f"{run.run_id} is damaged: {read.meaning}"), None
    if exempt:
        return Mark(RUN, wanted.handle, 0, 0, f"{run.run_id}: {NOT_COUNTED}", NOT_COUNTED, exempt=1), read
    return Mark(RUN, wanted.handle, 1, 1, run.run_id, run.run_id), read


def _run_lost(wanted: WantedRun, reason: str) -> Mark:
    return Mark(RUN, wanted.handle, 0, 1, reason, reason)


def _invalid(run: StoredRun) -> str:
    return f"{run.run_id} is INVALID: {run.invalid_because}"


def _choose(
    exercise: Exercise, wanted: WantedRun, runs: Sequence[StoredRun | Unusable], main: StoredRun | None
) -> StoredRun | None:
    """Return the newest run that is what the exercise wants, else the one that comes nearest."""

    def nearness(run: StoredRun) -> tuple[list[bool], str]:
        return [good for good, _ in _checks(exercise, wanted, run, main)], run.run_id

    candidates = [run for run in runs if isinstance(run, StoredRun) and run.scenario == wanted.scenario]
    return max(candidates, key=nearness, default=None)


def _checks(exercise: Exercise, wanted: WantedRun, run: StoredRun, main: StoredRun | None) -> list[tuple[bool, str]]:
    """Return what a run must be, the most important first: whether it is, and the reason if not.

    A missing cell ("") makes another run nearer; the points that refer to it name it.
    """
    fidelity = wanted.fidelity or (main.fidelity if main else "")
    command = _command(wanted, fidelity)
    asked = ", ".join(f"{name} = {value}" for name, value in wanted.parameters.items())
    return [
        (
            fidelity in ("", run.fidelity),
            f"{run.run_id} has fidelity {run.fidelity}, but this exercise needs {fidelity}. Repeat it: {command}",
        ),
        (
            all(run.parameters.get(name) == value for name, value in wanted.parameters.items()),
            f"{run.run_id} was not run with {asked}. Repeat it: {command}",
        ),
        (exercise.keys_of(wanted.handle) <= run.cells.keys(), ""),
        (run.valid, _invalid(run)),
        (
            main is None or run.machine == main.machine,
            f"{run.run_id} is of another machine than {main and main.run_id}: they cannot be compared.",
        ),
        (
            run.repetitions >= exercise.repetitions and run.messages >= exercise.messages,
            f"{run.run_id} has {run.repetitions} x {run.messages} messages; at least "
            f"{exercise.repetitions} x {exercise.messages} are wanted: {command}{_repetitions(exercise, run)}",
        ),
    ]


def _no_run(wanted: WantedRun, runs: Sequence[StoredRun | Unusable]) -> str:
    broken = [bad for bad in runs if isinstance(bad, Unusable) and bad.name.strip(".").find(f"-{wanted.scenario}") > 0]
    if broken:
        return f"{broken[-1].name} is {broken[-1].kind}: {broken[-1].meaning}"
    return f"there is no run of {wanted.scenario}: {_command(wanted, wanted.fidelity)}"


def _command(wanted: WantedRun, fidelity: str) -> str:
    set_by_hand = "".join(f"{name.upper()}={_setting(value)} " for name, value in wanted.parameters.items())
    return f"{set_by_hand}./lab run {wanted.scenario}" + (f" --fidelity {fidelity}" if fidelity else "")


def _repetitions(exercise: Exercise, run: StoredRun) -> str:
    wanted = exercise.repetitions
    return f" --repetitions {wanted}" if run.repetitions < wanted else ""


def _setting(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(f"{entry:g}" for entry in value)
    return on_off(value)


class _Judge:
    """Judges points and answers by the figures of the sound runs, which it has by handle."""

    def __init__(self, runs: Mapping[str, StoredRun], cells: Mapping[str, Mapping[Key, MeasuredCell]]) -> None:
        self._runs = runs
        self._cells = cells
        self._refused = any(priority_refused(run) for run in runs.values())

    def point(self, point: Point) -> Mark:
        return self._exempted(point, self._point(point))

    def question(self, question: Question, answer: Any) -> Mark:
        return self._exempted(question, self._question(question, answer))

    def _exempted(self, entry: Point | Question, marked: Mark) -> Mark:
        """Return the mark; a point that the machine cannot give is not counted."""
        if not (entry.needs_priority and self._refused) or marked.got == marked.worth:
            return marked
        return Mark(marked.kind, marked.name, 0, 0, NOT_COUNTED, NOT_COUNTED, exempt=marked.worth)

    def _point(self, point: Point) -> Mark:
        try:
            good, seen = (
                self._treatment(point.wants) if isinstance(point.wants, WantedTreatment) else self._band(point.wants)
            )
        except Unjudged as why:
            if point.or_lost and self._lost(point.wants):
                return Mark(RESULT, point.name, point.worth, point.worth, f"{point.says}: {AS_PUBLISHED}", AS_PUBLISHED)
            reason = f"{point.says}: not judged, {why}"
            return Mark(RESULT, point.name, 0, point.worth, reason, f"{point.says}: not judged")
        if not good and point.or_lost and self._lost(point.wants):
            good, seen = True, f"{seen}. {AS_PUBLISHED}"
        hint = f" {point.otherwise}" if point.otherwise and not good else ""
        brief = f"{point.says}: {'shown' if good else 'not shown'}.{hint}"
        return Mark(RESULT, point.name, point.worth if good else 0, point.worth, f"{point.says}: {seen}.{hint}", brief)

    def _question(self, question: Question, answer: Any) -> Mark:
        name, worth = question.name, question.worth
        given = "" if answer is None else str(answer).strip()
        if not given:
            return Mark(ANSWER, name, 0, worth, "not answered", "not answered")
        if question.value is None and given not in question.options:
            why = f"{answer!r} is none of {', '.join(question.options)}"
            return Mark(ANSWER, name, 0, worth, why, why)
        if question.predicts:
            why = "predicted; compare it with what you found"
            return Mark(ANSWER, name, worth, worth, why, why)
        try:
            good, why = self._figure(question, answer) if question.value else self._choice(question, given)
        except Unjudged as why_not:
            return Mark(ANSWER, name, 0, worth, f"not judged, {why_not}", "not judged: a run is missing or wrong")
        return Mark(ANSWER, name, worth if good else 0, worth, why, "right" if good else "not right")

    def _lost(self, wants: Band | WantedTreatment) -> bool:
        """Return whether the cell of a band lost messages or the connection."""
        cells = self._cells.get(wants.value.run, {}) if isinstance(wants, Band) else {}
        cell = cells.get(wants.value.cell.key) if isinstance(wants, Band) else None
        return cell is not None and (cell.count("lost") > 0 or bool(cell.document.get("disconnects")))

    def _treatment(self, wants: WantedTreatment) -> tuple[bool, str]:
        entry = self._run(wants.run).treatment(wants.what)
        if entry is None:
            return False, f"the run records no treatment “{wants.what}”"
        found = str(entry["found"])
        if not wants.found:
            return bool(entry["verified"]), f"wanted {entry['wanted']}, found {found}"
        return found in wants.found, f"found {found}"

    def _band(self, wants: Band) -> tuple[bool, str]:
        value = self._value(wants.value)
        if wants.over is None:
            ratio, seen = value, f"{wants.value} is {value:.4g}"
        else:
            other = self._value(wants.over)
            ratio = value / other if other else math.inf
            seen = f"{_shown(wants.value, value)} against {_shown(wants.over, other)}, {ratio:.2f} times"
        good = (wants.low is None or ratio >= wants.low) and (wants.high is None or ratio <= wants.high)
        return good, seen + ("" if good else f"; expected {_range(wants)}")

    def _figure(self, question: Question, answer: Any) -> tuple[bool, str]:
        assert question.value is not None
        value = self._value(question.value)
        if math.isinf(value):
            raise Unjudged(f"no message was answered at {question.value.cell}")
        try:
            given = float(str(answer).replace(",", ".").removesuffix(question.unit).strip())
        except ValueError:
            return False, f"{answer!r} is no number"
        slack = max(question.tolerance * abs(value), 0.5 if not question.unit else 0.0005)
        good = abs(given - value) <= slack
        unit = f" {question.unit}" if question.unit else ""
        return good, f"{given:g}{unit}; your run says {value:.4g}{unit} ({question.value})"

    def _choice(self, question: Question, answer: str) -> tuple[bool, str]:
        values = {option: self._value(value) for option, value in question.order.items()}
        right = [option for option in values if values[option] == max(values.values())]
        said = ", ".join(f"{option}: {_shown(question.order[option], value)}" for option, value in values.items())
        return answer in right, f"{answer}; your runs say {' or '.join(right)} ({said})"

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


def _range(wants: Band) -> str:
    if wants.low is None:
        return f"at most {wants.high:g}"
    return f"at least {wants.low:g}" if wants.high is None else f"{wants.low:g} to {wants.high:g}"
