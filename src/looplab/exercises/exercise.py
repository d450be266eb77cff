"""expected.yaml: what an exercise wants to see in its runs, and what it asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from looplab.errors import EXIT_USAGE, LabError

# An exercise is a scenario's or an experiment's, or stands in docs/exercises with runs of what is there already.
FOLDERS = ("compose/scenarios", "compose/experiments", "docs/exercises")
FILE = "expected.yaml"
METRICS = ("T", "R", "O", "L", "transport_O", "transport_L", "lateness")
STATISTICS = ("min", "max", "avg", "p50", "p95", "p99")
COUNTS = ("sent", "answered", "late", "lost", "answered_share", "lost_share", "disconnects", "interval")
# Figures of cells of qos-delay that are no times: latency over delay, MQTT packets in a TCP segment.
DELAY_FIGURES = ("ratio", "packets_per_segment", "largest_segment_bytes")

# A cell of the loop is one of interval in ms and QoS; a cell of qos-delay of both links' delays in ms and QoS.
Key = tuple[float, ...]


@dataclass(frozen=True)
class WantedRun:
    """A run that must be there; `fidelity` "" means: that of the exercise's main run."""

    handle: str
    scenario: str
    fidelity: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class Value:
    """One figure of one cell of a wanted run, e.g. O.p95 at 20 ms and QoS 0, or L.avg at 10 + 10 ms and QoS 0."""

    run: str
    name: str
    key: Key

    def __str__(self) -> str:
        return f"{self.name} of {self.run} at {said(self.key)}"


def said(key: Key) -> str:
    """A cell in words."""
    return f"{' + '.join(f'{ms:g}' for ms in key[:-1])} ms, QoS {key[-1]:g}"


@dataclass(frozen=True)
class Band:
    """`value` (divided by `over`, where given) lies from `low` to `high`: a ratio, never a time of one machine."""

    value: Value
    over: Value | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class TreatmentFound:
    """A treatment of a run was found as one of `found`; with none named, as it was wanted."""

    run: str
    what: str
    found: tuple[str, ...]


@dataclass(frozen=True)
class Point:
    """One thing that the runs must show, worth `worth` points."""

    name: str
    says: str
    worth: int
    wants: Band | TreatmentFound
    otherwise: str


@dataclass(frozen=True)
class Question:
    """One thing that is asked; the right answer comes out of the student's own run, never out of this file.

    `options` are what may be chosen; `value` is a figure to be read off (`tolerance` is a share of it); `order`
    names an option for each figure, the right one is that of the largest. With neither, any option is a prediction.
    """

    name: str
    asks: str
    worth: int
    options: Mapping[str, str]
    value: Value | None
    unit: str
    tolerance: float
    order: Mapping[str, Value]


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

    @property
    def total(self) -> int:
        """All points there are; each run that must be there is worth one."""
        return len(self.runs) + sum(p.worth for p in self.points) + sum(q.worth for q in self.questions)

    def cells_of(self, handle: str) -> set[Key]:
        """The cells of a run that points and questions look at."""
        values: list[Value | None] = [v for q in self.questions for v in (q.value, *q.order.values())]
        for point in self.points:
            if isinstance(point.wants, Band):
                values += [point.wants.value, point.wants.over]
        return {v.key for v in values if v is not None and v.run == handle}


def exercises(root: Path) -> list[str]:
    """The names of all exercises there are."""
    return [path.parent.name for folder in FOLDERS for path in sorted((root / folder).glob(f"[!_]*/{FILE}"))]


def read_exercise(root: Path, name: str) -> Exercise:
    """The exercise of that name; LabError (exit code 2) where there is none or its file is not sound."""
    for folder in FOLDERS:
        path = root / folder / name / FILE
        if "/" not in name and path.is_file():
            return parse_exercise(name, path.read_text(encoding="utf-8"), str(path.relative_to(root)))
    raise LabError(f"There is no exercise {name!r}.", f"Known are: {', '.join(exercises(root))}.", EXIT_USAGE)


def parse_exercise(name: str, text: str, where: str) -> Exercise:
    """An Exercise out of the text of an expected.yaml."""
    try:
        return _Reader(where).exercise(name, yaml.safe_load(text))
    except yaml.YAMLError as error:
        raise LabError(f"{where} is no YAML: {' '.join(str(error).split())}", "Mend that line.", EXIT_USAGE) from error


class _Reader:
    """Turns plain YAML into the classes above and names the place of every mistake."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._handles: list[str] = []

    def exercise(self, name: str, document: Any) -> Exercise:
        top = self._mapping(document, "the file", ("title", "runs"), ("least", "points", "questions"))
        runs = [self._run(handle, entry) for handle, entry in self._mapping(top["runs"], "runs").items()]
        self._handles = [run.handle for run in runs]
        least = self._mapping(top.get("least") or {}, "least", (), ("repetitions", "messages"))
        return Exercise(
            name=name,
            title=str(top["title"]),
            runs=runs,
            repetitions=int(least.get("repetitions", 1)),
            messages=int(least.get("messages", 1)),
            points=[self._point(key, entry) for key, entry in self._mapping(top.get("points") or {}, "points").items()],
            questions=[
                self._question(key, entry)
                for key, entry in self._mapping(top.get("questions") or {}, "questions").items()
            ],
        )

    def _run(self, handle: str, entry: Any) -> WantedRun:
        fields = self._mapping(entry, f"runs.{handle}", ("scenario",), ("fidelity", "parameters"))
        parameters = self._mapping(fields.get("parameters") or {}, f"runs.{handle}.parameters")
        return WantedRun(handle, str(fields["scenario"]), str(fields.get("fidelity") or ""), parameters)

    def _point(self, name: str, entry: Any) -> Point:
        place = f"points.{name}"
        fields = self._mapping(
            entry, place, ("says",), ("worth", "value", "over", "from", "to", "treatment", "otherwise")
        )
        wants: Band | TreatmentFound
        if "treatment" in fields:
            wanted = self._mapping(fields["treatment"], f"{place}.treatment", ("run", "what"), ("found",))
            named = wanted.get("found", [])
            found = named if isinstance(named, list) else [named]
            wants = TreatmentFound(self._handle(wanted["run"], place), str(wanted["what"]), tuple(map(str, found)))
        elif "value" in fields and ("from" in fields or "to" in fields):
            over = self._value(fields["over"], f"{place}.over") if "over" in fields else None
            value = self._value(fields["value"], f"{place}.value")
            wants = Band(value, over, self._number(fields.get("from")), self._number(fields.get("to")))
            if over is None and value.name.partition(".")[0] in METRICS:
                raise self._wrong(f"{place} is a band of times", "Divide it by another with `over:`; machines differ.")
        else:
            raise self._wrong(f"{place} wants nothing", "Give it `treatment:`, or `value:` with `from:` or `to:`.")
        return Point(name, str(fields["says"]), int(fields.get("worth", 1)), wants, str(fields.get("otherwise") or ""))

    def _question(self, name: str, entry: Any) -> Question:
        place = f"questions.{name}"
        fields = self._mapping(entry, place, ("asks",), ("worth", "options", "value", "unit", "tolerance", "largest"))
        order = {
            str(option): self._value(value, f"{place}.largest.{option}")
            for option, value in self._mapping(fields.get("largest") or {}, f"{place}.largest").items()
        }
        options = {
            str(key): str(text) for key, text in self._mapping(fields.get("options") or {}, f"{place}.options").items()
        }
        value = self._value(fields["value"], f"{place}.value") if "value" in fields else None
        if bool(options) == (value is not None) or not set(order) <= set(options):
            raise self._wrong(
                f"{place} is neither a choice nor a figure",
                "Give it `options:` (and `largest:` with a figure for each), or `value:`.",
            )
        return Question(
            name,
            str(fields["asks"]),
            int(fields.get("worth", 1)),
            options,
            value,
            str(fields.get("unit") or ""),
            float(fields.get("tolerance", 0.05)),
            order,
        )

    def _value(self, entry: Any, place: str) -> Value:
        fields = self._mapping(entry, place, ("run", "name"), ("interval_ms", "delays_ms", "qos"))
        name = str(fields["name"])
        metric, _, statistic = name.partition(".")
        plain = (*COUNTS, *DELAY_FIGURES)
        if name not in plain and (metric not in METRICS or statistic not in STATISTICS):
            raise self._wrong(
                f"{place}: {name!r} is no figure of a run",
                f"Use one of {', '.join(plain)}, or {'|'.join(METRICS)} with {'|'.join(STATISTICS)}, e.g. O.p95.",
            )
        run = self._handle(fields["run"], place)
        qos = int(fields.get("qos", 0))
        if "delays_ms" not in fields:
            return Value(run, name, (float(fields.get("interval_ms", 20)), qos))
        delays = fields["delays_ms"]
        if not isinstance(delays, list) or len(delays) != 2:
            raise self._wrong(f"{place}: delays_ms is no pair", "Write both links' delays: delays_ms: [10, 10]")
        return Value(run, name, (float(delays[0]), float(delays[1]), qos))

    def _handle(self, handle: Any, place: str) -> str:
        if handle not in self._handles:
            raise self._wrong(f"{place}: there is no run {handle!r}", f"Runs are: {', '.join(self._handles)}.")
        return str(handle)

    def _mapping(
        self, entry: Any, place: str, needed: Sequence[str] = (), allowed: Sequence[str] | None = None
    ) -> dict[str, Any]:
        if not isinstance(entry, dict):
            raise self._wrong(f"{place} is no mapping", "Write `name: value` lines under it.")
        missing = [key for key in needed if key not in entry]
        if missing:
            raise self._wrong(f"{place} lacks {', '.join(missing)}", "Add it.")
        unknown = [str(key) for key in entry if allowed is not None and key not in (*needed, *allowed)]
        if unknown:
            known = ", ".join((*needed, *(allowed or ())))
            raise self._wrong(f"{place} has {', '.join(unknown)}, which is unknown", f"Known are: {known}.")
        return entry

    def _number(self, entry: Any) -> float | None:
        return None if entry is None else float(entry)

    def _wrong(self, what: str, remedy: str) -> LabError:
        return LabError(f"{self._where}: {what}.", remedy, EXIT_USAGE)
