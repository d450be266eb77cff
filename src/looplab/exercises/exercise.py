"""expected.yaml: what an exercise wants to see in its runs, and what it asks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from looplab.errors import LabError, UsageError, did_you_mean
from looplab.report.schema import fault, validator
from looplab.spec.cell import Cell
from looplab.spec.columns import Key, Latency
from looplab.spec.experiment import Bound, Experiment, Experiments
from looplab.system.env_files import read_env

# An exercise belongs to a scenario or an experiment, or is in docs/exercises with runs of what is there already.
FOLDERS = ("compose/scenarios", "compose/experiments", "docs/exercises")
FILE = "expected.yaml"
SCHEMA = Path(__file__).parent / "expected.schema.json"
REMEDY = "See docs/teaching.md."
# Entries of points and questions that are no plain words and numbers.
PARSED = ("options", "figure", "largest", "found", "over")

# From the name of a scenario to the table whose cells may be asked about.
TableOf = Callable[[str], type[Cell]]


@dataclass(frozen=True)
class WantedRun:
    """A run that must be there; `fidelity` "" is that of the exercise's main run.

    `allows` names a treatment for which alone the run may be INVALID: the student has changed it on purpose.
    `by` is the command of ./lab that must have made it.
    """

    handle: str
    scenario: str
    fidelity: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    needs: str = ""
    allows: str = ""
    by: str = ""


@dataclass(frozen=True)
class Value:
    """One figure of one cell of a wanted run, e.g. O.p95 at 20 ms and QoS 0, divided by `over` where given.

    Of `cell` only the key is known.
    """

    run: str
    name: str
    cell: Cell
    over: "Value | None" = None

    @property
    def unit(self) -> str:
        """The unit in which it is stored; "" for a number of messages or a share."""
        column = self.cell.columns.get(self.name.partition(".")[0])
        return column.unit if column else ""

    @property
    def digits(self) -> int:
        """How many digits behind the point a table shows of it; a quotient is as good as with two."""
        column = self.cell.columns.get(self.name.partition(".")[0])
        if self.over:
            return 2
        is_share = column is None or bool(getattr(column, "share", None))
        if is_share or (self.unit == "us" and not isinstance(column, Latency)):
            return 3
        return int(getattr(column, "digits", 0))

    def __str__(self) -> str:
        return f"{self.name} of {self.run} at {self.cell}"


@dataclass(frozen=True)
class WantedTreatment:
    """A treatment of a run must have been `found` so; "" for as the run wanted it."""

    run: str
    what: str
    found: str


@dataclass(frozen=True)
class Point:
    """One thing that the runs must show, worth `worth` points.

    `needs` is "real-time priority" or "": a point that needs it is not counted on a machine that refuses it. `or_lost`:
    also given where messages or the connection were lost, because that is the published result.
    """

    name: str
    wants: Bound[Value] | WantedTreatment
    says: str
    worth: int = 1
    otherwise: str = ""
    needs: str = ""
    or_lost: bool = False


@dataclass(frozen=True)
class Question:
    """One question; the right answer comes from the student's own run, or is the option `right`.

    `options` are what may be chosen; `figure` is to be read off (`tolerance` is a share of it); `largest` names an
    option for each figure: those of the largest are right. `found` is a treatment: the option that it was found as is
    right. A choice with `right` wants a reason, which a person marks; students' archives lack `right`. A prediction has
    none of these: any option is good; `shown_by` names the point or question that shows whether it came true.
    """

    name: str
    options: Mapping[str, str]
    figure: Value | None
    largest: Mapping[str, Value]
    asks: str
    worth: int = 1
    unit: str = ""
    tolerance: float = 0.05
    needs: str = ""
    shown_by: str = ""
    found: WantedTreatment | None = None
    right: str = ""

    @property
    def predicts(self) -> bool:
        """Whether it asks for a prediction: any option is right, if it was chosen before the run."""
        return bool(self.shown_by)

    @property
    def reasoned(self) -> bool:
        """Whether it is a choice that wants a reason."""
        return bool(self.options) and not (self.predicts or self.largest or self.found)


@dataclass(frozen=True)
class Card:
    """What the lab card says of an exercise.

    Minutes are a student's: all, and those for runs. `before` names exercises, `reruns` the commands that the questions
    order in addition to those of the section Run.
    """

    goals: Sequence[str] = ()
    before: Sequence[str] = ()
    reruns: Sequence[str] = ()
    minutes: int = 0
    running: int = 0


@dataclass(frozen=True)
class Exercise:
    """One expected.yaml; the last of `runs` is the main one."""

    name: str
    title: str
    runs: Sequence[WantedRun]
    repetitions: int
    messages: int
    points: Sequence[Point]
    questions: Sequence[Question]
    card: Card

    @property
    def total(self) -> int:
        """The sum of all points; each run that must be there is worth one."""
        return len(self.runs) + sum(p.worth for p in self.points) + sum(q.worth for q in self.questions)

    @property
    def values(self) -> list[Value]:
        """The figures that points and questions refer to."""
        bounded = [point.wants.figure for point in self.points if isinstance(point.wants, Bound)]
        named = [
            *(v for value in bounded for v in (value, value.over)),
            *(v for q in self.questions if q.figure for v in (q.figure, q.figure.over)),
        ]
        return [v for v in named if v] + [v for q in self.questions for v in q.largest.values()]

    def keys_of(self, handle: str) -> set[tuple[Any, ...]]:
        """Return the keys of the cells of a run that points and questions refer to."""
        return {value.cell.key for value in self.values if value.run == handle}


def exercises(root: Path) -> dict[str, Path]:
    """Return the folder of each exercise, by its name."""
    return {path.parent.name: path.parent for one in FOLDERS for path in sorted((root / one).glob(f"[!_]*/{FILE}"))}


def read_exercise(root: Path, name: str, experiments: Experiments) -> Exercise:
    """Return the exercise of that name; LabError (exit code 2) if there is none or its file is not sound."""
    known, name = exercises(root), experiments[experiments.default].aliases.get(name, name)
    if name not in known:
        raise UsageError(f"There is no exercise {name!r}.", f"{did_you_mean(name, known)}./lab list names all.")
    path = known[name] / FILE
    text, where = path.read_text(encoding="utf-8"), str(path.relative_to(root))
    params = known[name] / "params.env"
    title = read_env(params).get("TITLE", name) if params.is_file() else name
    return parse_exercise(
        name, text, where, lambda scenario: experiment_of(root, experiments, scenario).table(scenario), title
    )


def experiment_of(root: Path, experiments: Experiments, scenario: str) -> Experiment:
    """Return the experiment that a scenario belongs to; of an unknown one, the default."""
    owners = (one for one in experiments.values() if any(path.name == scenario for path in root.glob(one.scenarios)))
    return next(owners, experiments[experiments.default])


def parse_exercise(name: str, text: str, where: str, table_of: TableOf, title: str = "") -> Exercise:
    """Return the exercise in the text of an expected.yaml; `title` is its scenario's, unless the text has its own.

    LabError (exit code 2) names the place of a mistake.
    """
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UsageError(f"{where} is no YAML: {' '.join(str(error).split())}", "Correct that line.") from error
    mistake = fault(document, validator(SCHEMA))
    if mistake:
        raise UsageError(f"{where}: {mistake}.", REMEDY)
    runs = [WantedRun(handle, **run) for handle, run in document["runs"].items()]
    reader = _Reader(where, {run.handle: table_of(run.scenario) for run in runs})
    least, card = document.get("least") or {}, document.get("card") or {}
    minutes = card.get("minutes", {})
    return Exercise(
        name=name,
        title=document.get("title", title),
        runs=runs,
        repetitions=least.get("repetitions", 1),
        messages=least.get("messages", 1),
        points=[reader.point(key, entry) for key, entry in (document.get("points") or {}).items()],
        questions=[reader.question(key, entry) for key, entry in (document.get("questions") or {}).items()],
        card=Card(**{**card, "minutes": sum(minutes.values()), "running": minutes.get("running", 0)}),
    )


@dataclass(frozen=True)
class _Reader:
    """Turns the plain mappings of a file that fits the schema into the classes above."""

    where: str
    tables: Mapping[str, type[Cell]]

    def point(self, name: str, entry: Mapping[str, Any]) -> Point:
        return Point(name, self._wants(entry, f"points.{name}"), **_plain(entry, Point))

    def _wants(self, entry: Mapping[str, Any], place: str) -> Bound[Value] | WantedTreatment:
        if "treatment" in entry:
            return self._treatment(entry["treatment"], place)
        over = self._value(entry["over"], f"{place}.over") if "over" in entry else None
        figure = replace(self._value(entry["figure"], f"{place}.figure"), over=over)
        if over is None and "." in figure.name:
            raise self._wrong(f"{place} bounds a time", "Divide it by another with `over:`; machines differ.")
        return Bound(figure, entry.get("at_least"), entry.get("at_most"))

    def _treatment(self, wanted: Mapping[str, Any], place: str) -> WantedTreatment:
        return WantedTreatment(self._handle(wanted["run"], place), wanted["what"], wanted.get("found", ""))

    def question(self, name: str, entry: Mapping[str, Any]) -> Question:
        place = f"questions.{name}"
        largest = {
            str(option): self._value(figure, f"{place}.largest.{option}")
            for option, figure in (entry.get("largest") or {}).items()
        }
        options = {str(key): str(text) for key, text in (entry.get("options") or {}).items()}
        figure = self._value(entry["figure"], f"{place}.figure") if "figure" in entry else None
        if figure and "over" in entry:
            figure = replace(figure, over=self._value(entry["over"], f"{place}.over"))
        found = self._treatment(entry["found"], place) if "found" in entry else None
        if not largest.keys() <= options.keys():
            raise self._wrong(f"{place}: `largest` has no option of its own", "Give each figure an option's name.")
        return Question(name, options, figure, largest, found=found, **_plain(entry, Question))

    def _value(self, entry: Mapping[str, Any], place: str) -> Value:
        run, name = self._handle(entry["run"], place), entry["name"]
        table = self.tables[run]
        names = list(table.figure_names())
        if name not in names:
            columns = ", ".join(dict.fromkeys(known.partition(".")[0] for known in names))
            raise self._wrong(f"{place}: {name!r} is no figure of a run", f"Use one of {columns}; a latency with .p95.")
        return Value(run, name, self._cell(table, {k: v for k, v in entry.items() if k not in ("run", "name")}, place))

    def _cell(self, table: type[Cell], given: Mapping[str, Any], place: str) -> Cell:
        """Return the cell that the fields of a value name."""
        keys = table.key_columns()
        fields = {key.name: given.get(key.name, key.default) for key in keys}
        if not given.keys() <= fields.keys() or not all(_fits(key, fields[key.name]) for key in keys):
            like = [f"{key.name}: {10 if key.default is None else key.text(key.default)}" for key in keys]
            raise self._wrong(f"{place}: {dict(given)} names no cell of a run", f"Write it like {', '.join(like)}.")
        return table.keyed(*(key.kind(fields[key.name]) for key in keys))

    def _handle(self, handle: Any, place: str) -> str:
        if handle not in self.tables:
            raise self._wrong(f"{place}: there is no run {handle!r}", f"Runs are: {', '.join(self.tables)}.")
        return str(handle)

    def _wrong(self, what: str, remedy: str) -> LabError:
        return UsageError(f"{self.where}: {what}.", remedy)


def _plain(entry: Mapping[str, Any], made: type[Point | Question]) -> dict[str, Any]:
    """Return what an entry of the file gives of a class as it is."""
    return {name: value for name, value in entry.items() if name in made.__annotations__ and name not in PARSED}


def _fits(key: Key[Any], value: Any) -> bool:
    return isinstance(value, str) if key.kind is str else isinstance(value, int | float)
