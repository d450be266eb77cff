"""The columns of an experiment's table: key, counts, latencies, figures.

A class derived from `Cell` (looplab.spec.cell) is the table; each of its attributes is a column, written once:

    class Sleeps(Cell):
        sleep_ms = Key(float, "how long to sleep", heading="sleep", default=5)
        sent = Count("sleeps begun", total=True)
        answered = Count("sleeps that ended", outcome="answered")
        S = Latency("the sleep", column="total_us", table=("avg",), live=True)
        over_asked = Figure("mean sleep over the one asked for", over=("S", "sleep_ms"), heading="ratio", live=True)

run.json, its schema, samples.csv, Prometheus, the terminal, report and exercises are derived from these attributes.
"""

from collections.abc import Callable, Sequence
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

from looplab.spec.document import Document, at

if TYPE_CHECKING:
    from looplab.spec.cell import Cell

T = TypeVar("T")
# A column of the samples holds this where nothing is known.
ABSENT = -1
# An exercise may ask for these statistics; every report computes them from the samples.
ASKED = ("min", "max", "avg", "p50", "p95", "p99")


class Column(Generic[T]):
    """One column: what it means (`about`), where a cell of run.json holds it, and the faces that show it.

    `path` is a dotted path, by default the column's own name. A terminal shows a column with a `heading`. Prometheus
    gets one that is `live` while a run goes on, by its own name or the one given.
    """

    name: str
    # Statistics that may be asked for by name, e.g. the p95 of a latency.
    parts: tuple[str, ...] = ()
    # Whether run.json holds its value at its path, and what its name there ends with.
    stored: bool = True
    suffix: str = ""

    def __init__(
        self, about: str, *, path: str = "", heading: str = "", unit: str = "", live: bool | str = False
    ) -> None:
        self.about, self.heading, self.unit, self._path, self._live = about, heading, unit, path, live

    def __set_name__(self, _owner: type, name: str) -> None:
        self.name = name
        self.path = tuple((self._path or name + self.suffix).split("."))

    @property
    def metric(self) -> str | None:
        """Its name in Prometheus, of a latency its label `metric`; None if it has none."""
        return self.name if self._live is True else self._live or None

    @overload
    def __get__(self, cell: None, owner: type) -> Self: ...
    @overload
    def __get__(self, cell: "Cell", owner: type) -> T: ...
    def __get__(self, cell: "Cell | None", owner: type) -> Self | T:
        return self if cell is None else self.of(cell)

    def of(self, cell: "Cell") -> T:
        """Return its value in a cell."""
        value: T = at(cell.document, self.path)
        return value


class Key(Column[T]):
    """A part of what tells cells apart; text, whole number or number. `default` is what an exercise need not name.

    `values` names the parameter that lists its values; one that is the `pace` is the time between two messages in ms.
    """

    def __init__(
        self,
        kind: Callable[[Any], T],
        about: str,
        *,
        default: T | None = None,
        values: str = "",
        pace: bool = False,
        **more: Any,
    ) -> None:
        super().__init__(about, **more)
        self.kind, self.default, self.values, self.pace = kind, default, values, pace

    def of(self, cell: "Cell") -> T:
        """Return its value in a cell. Raises KeyError where it is missing."""
        return self.kind(cell.document[self.name])

    def text(self, value: Any) -> str:
        """Return a value as samples.csv, labels and options write it."""
        return str(value) if self.kind is str else f"{self.kind(value):g}"


class Text(Column[str]):
    """Words made of other columns: a column of the terminal if it has a heading."""

    stored = False

    def __init__(self, make: Callable[[Any], str], about: str = "", **more: Any) -> None:
        super().__init__(about, **more)
        self.make = make

    def of(self, cell: "Cell") -> str:
        return self.make(cell)


class Word(Column[str]):
    """A word of run.json, "" where it is absent."""

    def of(self, cell: "Cell") -> str:
        return str(at(cell.document, self.path) or "")


class Count(Column[int]):
    """A number of messages; those of several runs are added.

    `outcome` is what samples.csv calls these messages; the counts with an outcome add up to the one that is `total`.
    `fates` are what the run's accounting calls them, if that differs (looplab.run.accounting.OUTCOMES).
    """

    def __init__(
        self, about: str, *, outcome: str = "", fates: tuple[str, ...] = (), total: bool = False, **more: Any
    ) -> None:
        super().__init__(about, **more)
        self.outcome, self.fates, self.total = outcome, fates or (outcome,), total

    def of(self, cell: "Cell") -> int:
        return sum(int(at(one.document, self.path) or 0) for one in cell.runs or (cell,))


class Latency(Column[Document]):
    """A duration of each message in microseconds: run.json has its statistics, under the name with `_us`.

    It passes between two `times` of the samples, or `made` computes it in ns from their columns and a row (ABSENT if it
    is unknown); without both the experiment writes it. `column` is that of samples.csv, "" if it holds none. `table`
    names the statistics that the terminal shows, in ms with `digits` behind the point; `decades` are those of
    Prometheus's buckets, in seconds. One that is `endless` is infinite, for an exercise, if no message was answered.
    """

    parts, suffix = ASKED, "_us"

    def __init__(
        self,
        about: str,
        *,
        column: str = "",
        times: tuple[str, str] | None = None,
        made: Callable[[Any, int], int] | None = None,
        table: tuple[str, ...] = (),
        digits: int = 3,
        decades: tuple[int, int] = (-4, 0),
        endless: bool = True,
        **more: Any,
    ) -> None:
        super().__init__(about, unit="us", **more)
        self.column, self.table, self.digits, self.decades, self.endless = column, table, digits, decades, endless
        self.made = partial(between, *times) if times else made

    def of(self, cell: "Cell") -> Document:
        return of_runs([self.of(one) for one in cell.runs]) if cell.runs else at(cell.document, self.path) or {}


def of_runs(each: Sequence[Document]) -> Document:
    """Return the statistics of a latency over several runs: of all messages, but of a quantile the runs' mean."""
    known = [one for one in each if one.get("n")]
    if not known:
        return each[-1]
    count = sum(one["n"] for one in known)
    pooled: dict[str, Any] = {"n": count}
    for name in known[-1].keys() - {"n"}:
        values = [float(value) for one in known if (value := one.get(name)) is not None]
        if len(values) < len(known):
            pooled[name] = None
        elif name == "avg":
            pooled[name] = sum(one["n"] * one[name] for one in known) / count
        else:
            pooled[name] = min(values) if name == "min" else max(values) if name == "max" else fmean(values)
    return pooled


class Part(Column[Any]):
    """A part of run.json that is no single figure; `shape` is its JSON schema: `defined`, `each` or `rows`.

    `parts` are those of its figures that an exercise may ask for. Of several runs it is what `pooled` makes of all its
    figures of one name; without it, that of the newest.
    """

    def __init__(
        self,
        about: str,
        shape: Document,
        *,
        parts: tuple[str, ...] = (),
        pooled: Callable[[Sequence[Any]], Any] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(about, **more)
        self.shape, self.parts, self.pooled = shape, parts, pooled

    def of(self, cell: "Cell") -> Any:
        if self.pooled is None or not cell.runs:
            return at(cell.document, self.path) or {}
        each = [self.of(one) for one in cell.runs]
        known = {name: [one[name] for one in each if one.get(name) is not None] for name in each[-1]}
        return {name: self.pooled(values) if values else None for name, values in known.items()}


def between(start: str, end: str, columns: Any, row: int) -> int:
    """Return the time between two columns of the samples in ns, ABSENT where one is unknown."""
    first, last = columns[start][row], columns[end][row]
    return ABSENT if ABSENT in (first, last) else last - first


class Figure(Column[float | None]):
    """A number that is no latency of messages.

    It is read at `path`, is the quotient `over` of two columns (of a latency the mean, in ms), or `made` of the cell.
    A `share` says of a cell and a message's response in ns, infinite without an answer, whether the message counts.
    Of several runs it is what `pooled` makes of theirs. `digits` are those behind the point in the terminal.
    """

    def __init__(
        self,
        about: str,
        *,
        over: tuple[str, str] | None = None,
        made: Callable[[Any], float | None] | None = None,
        share: Callable[[Any, float], bool] | None = None,
        pooled: Callable[[Sequence[float]], float] = fmean,
        digits: int = 2,
        **more: Any,
    ) -> None:
        super().__init__(about, **more)
        self.over, self.made, self.share, self.pooled, self.digits = over, made, share, pooled, digits
        self.derived = made is not None or over is not None

    def of(self, cell: "Cell") -> float | None:
        known = [value for one in cell.runs or (cell,) if (value := self._of_one(one)) is not None]
        return self.pooled(known) if known else None

    def _of_one(self, cell: "Cell") -> float | None:
        if self.made is not None:
            return self.made(cell)
        if self.over is not None:
            above, below = (_in_ms(cell, name) for name in self.over)
            return None if above is None or not below else above / below
        value = at(cell.document, self.path)
        return None if value is None else float(value)


def _in_ms(cell: "Cell", name: str) -> float | None:
    column = type(cell).columns[name]
    value: float | None = column.of(cell)["avg"] if isinstance(column, Latency) else column.of(cell)
    return value / 1000 if value is not None and column.unit == "us" else value
