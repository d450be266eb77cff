"""The columns of an experiment's table: key, counts, latencies, figures. A Cell is one of its rows.

A class derived from `Cell` is the table; each of its attributes is a column, written once:

    class Sleeps(Cell):
        sleep_ms = Key(float, "how long to sleep", heading="sleep", default=5)
        sent = Count("sleeps begun", total=True)
        answered = Count("sleeps that ended", outcome="answered")
        S = Latency("the sleep", column="total_us", table=("avg",))
        over_asked = Figure("mean sleep over the one asked for", unit="x", over=("S", "sleep_ms"), heading="ratio")

run.json, its schema, samples.csv, Prometheus, the terminal, report and exercises are derived from these attributes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from statistics import fmean
from types import MappingProxyType
from typing import Any, ClassVar, Generic, Self, TypeVar, overload

from looplab.spec.document import Document, at

T = TypeVar("T")
# What a column of the samples holds where nothing is known.
ABSENT = -1
# Statistics of a latency in run.json, each with its quantile as Prometheus writes it.
QUANTILES = MappingProxyType(
    {"min": "0", "p25": "0.25", "p50": "0.5", "p75": "0.75", "p95": "0.95", "p99": "0.99", "p999": "0.999", "max": "1"}
)
STATISTICS = ("avg", *QUANTILES)
# Those that an exercise may ask for, by every report computed from the samples.
ASKED = ("min", "max", "avg", "p50", "p95", "p99")
# How many of each unit make Prometheus's base unit, and that unit.
BASE_UNITS = MappingProxyType({"us": (1e6, "_seconds"), "ms": (1e3, "_seconds"), "s": (1, "_seconds")})


class Column(Generic[T]):
    """One column: what it means (`about`), where a cell of run.json holds it, its heading in the terminal.

    `path` is a dotted path, by default the column's own name. Without a `heading` the terminal leaves it out.
    `prometheus` is the end of its metric's name; "" is derived from name and unit, None leaves it out.
    """

    name: str
    # What may be asked of it by name, e.g. the p95 of a latency.
    parts: tuple[str, ...] = ()
    # Whether run.json holds its value at its path, and what its name there ends with.
    stored: bool = True
    suffix: str = ""

    def __init__(
        self, about: str, *, path: str = "", heading: str = "", unit: str = "", prometheus: str | None = ""
    ) -> None:
        self.about, self.heading, self.unit, self._path, self._metric = about, heading, unit, path, prometheus

    def __set_name__(self, _owner: type, name: str) -> None:
        self.name = name
        self.path = tuple((self._path or name + self.suffix).split("."))

    @property
    def metric(self) -> str | None:
        """The end of its metric's name in Prometheus, in base units; None if it has none."""
        if self._metric != "":
            return self._metric
        return self.name.removesuffix(f"_{self.unit}") + BASE_UNITS.get(self.unit, (1, ""))[1]

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
    """A part of what tells cells apart; text, whole number or number. `default` is what an exercise need not name."""

    def __init__(self, kind: Callable[[Any], T], about: str, *, default: T | None = None, **more: Any) -> None:
        super().__init__(about, **more)
        self.kind, self.default = kind, default

    def of(self, cell: "Cell") -> T:
        return self.of_document(cell.document)

    def of_document(self, document: Document) -> T:
        """Return its value in a cell of run.json. Raises KeyError where it is missing."""
        return self.kind(document[self.name])

    def text(self, value: Any) -> str:
        """Return a value as samples.csv, labels and options write it."""
        return str(value) if self.kind is str else f"{self.kind(value):g}"


class Text(Column[str]):
    """Words made of other columns: a label of Prometheus, a column of the terminal if it has a heading."""

    stored = False

    def __init__(self, make: Callable[[Any], str], about: str = "", *, label: bool = True, **more: Any) -> None:
        super().__init__(about, **more)
        self.make, self.label = make, label

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

    It passes between two `times` of the samples, or `made` gives it in ns of their columns and a row, ABSENT if it is
    unknown; neither: the experiment writes it. `column` is that of samples.csv, "" if it holds none. `table` names
    the statistics that the terminal shows, in ms with `digits` behind the point; `decades` are those of Prometheus's
    buckets, in seconds. One that is `endless` is infinite, for an exercise, if no message was answered.
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

    @property
    def metric(self) -> str | None:
        """Its label `metric` in Prometheus."""
        return self._metric if self._metric != "" else self.name

    def of(self, cell: "Cell") -> Document:
        return at(cell.document, self.path) or {}


class Part(Column[Any]):
    """A part of run.json that is no single figure; `shape` is its JSON schema: `defined`, `each` or `rows`.

    `parts` are those of its figures that an exercise may ask for.
    """

    def __init__(self, about: str, shape: Document, *, parts: tuple[str, ...] = (), **more: Any) -> None:
        super().__init__(about, prometheus=None, **more)
        self.shape, self.parts = shape, parts

    def of(self, cell: "Cell") -> Any:
        return at(cell.document, self.path) or {}


def between(start: str, end: str, columns: Any, row: int) -> int:
    """Return the time between two columns of the samples in ns, ABSENT where one is unknown."""
    first, last = columns[start][row], columns[end][row]
    return ABSENT if ABSENT in (first, last) else last - first


class Figure(Column[float | None]):
    """A number that is no latency of messages.

    It is read at `path`, is the quotient `over` of two columns (of a latency the mean, in ms), or `made` of the cell.
    Of several runs it is what `pooled` makes of theirs. `digits` are those behind the point in the terminal.
    """

    def __init__(
        self,
        about: str,
        *,
        over: tuple[str, str] | None = None,
        made: Callable[[Any], float | None] | None = None,
        pooled: Callable[[Sequence[float]], float] = fmean,
        digits: int = 2,
        **more: Any,
    ) -> None:
        super().__init__(about, **more)
        self.over, self.made, self.pooled, self.digits = over, made, pooled, digits
        self.stored = made is None and over is None

    def of(self, cell: "Cell") -> float | None:
        if not cell.runs:
            return self._of_one(cell)
        known = [value for one in cell.runs if (value := self._of_one(one)) is not None]
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


class Cell:
    """One row of an experiment's table: a cell of run.json. Of several runs alike, `runs` holds that of each.

    `family` begins the names of its metrics; `note` explains, above the terminal's table, what headings cannot.
    """

    columns: ClassVar[Mapping[str, Column[Any]]] = MappingProxyType({})
    family: ClassVar[str] = ""
    note: ClassVar[str] = ""
    # Metrics beside those of the columns: type and help by the end of the name; `more_values` gives their values.
    more_metrics: ClassVar[Mapping[str, tuple[str, str]]] = MappingProxyType({})
    # What run.json holds of the whole run beside its frame: the shape of it by key.
    of_run: ClassVar[Mapping[str, Document]] = MappingProxyType({})
    # Whether Prometheus gets the distribution of every message of a stored run, or its quantiles alone.
    curves: ClassVar[bool] = False
    runs: "Sequence[Cell]" = ()
    send_lateness = Latency("how much later than due messages left", times=("due_ns", "sent_ns"), prometheus=None)

    def __init_subclass__(cls) -> None:
        named = (one for base in reversed(cls.__mro__) for one in vars(base).items())
        cls.columns = MappingProxyType({name: one for name, one in named if isinstance(one, Column)})

    def __init__(self, document: Document) -> None:
        self.document = document

    def more_values(self) -> Iterable[tuple[str, Mapping[str, str], float]]:
        """Return the end of the name, further labels and the value of each of `more_metrics`, of a cell of run.json."""
        return ()

    @classmethod
    def remarks(cls, _run: Document) -> Iterable[str]:
        """Return lines for the terminal below the table of a run: what the figures alone do not show."""
        return ()

    @classmethod
    def keyed(cls, *values: Any, **named: Any) -> Self:
        """Return a cell that is planned: nothing of it is known but its key."""
        return cls({**{key.name: value for key, value in zip(cls.key_columns(), values, strict=False)}, **named})

    @classmethod
    def of_kind(cls, kind: type[Column[Any]]) -> Iterator[Any]:
        return (column for column in cls.columns.values() if isinstance(column, kind))

    @classmethod
    def key_columns(cls) -> "list[Key[Any]]":
        return list(cls.of_kind(Key))

    @classmethod
    def counts(cls) -> list[Count]:
        return list(cls.of_kind(Count))

    @classmethod
    def latencies(cls) -> list[Latency]:
        return list(cls.of_kind(Latency))

    @classmethod
    def figures(cls) -> list[Figure]:
        return list(cls.of_kind(Figure))

    @classmethod
    def total(cls) -> Count:
        """Return the count to which the outcomes add up."""
        return next(count for count in cls.counts() if count.total)

    @classmethod
    def outcomes(cls) -> dict[str, Count]:
        """Return the counts that have an outcome, by it."""
        return {count.outcome: count for count in cls.counts() if count.outcome}

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells this cell from the others of its run."""
        return tuple(key.of(self) for key in self.key_columns())

    @property
    def key_document(self) -> dict[str, Any]:
        """The part of the cell's document that is its key."""
        return {key.name: self.document[key.name] for key in self.key_columns()}

    @property
    def labels(self) -> dict[str, str]:
        """The labels that tell this cell's series in Prometheus from others."""
        keys = {key.name: key.text(key.of(self)) for key in self.key_columns()}
        return {**keys, **{text.name: text.of(self) for text in self.of_kind(Text) if text.label}}

    @property
    def text(self) -> str:
        """The cell in words: "10 + 10 ms, QoS 2", "java, tcp"."""
        named = list(zip(self.key_columns(), self.key, strict=True))
        times = " + ".join(f"{value:g}" for key, value in named if key.name.endswith("_ms"))
        others = [_words(key, value) for key, value in named if not key.name.endswith("_ms")]
        return ", ".join([f"{times} ms", *others] if times else others)

    def __str__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cell) and type(other) is type(self) and other.document == self.document

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def valid(self) -> bool:
        return bool(self.document.get("valid", True))


# The columns that every table has.
Cell.columns = MappingProxyType({"send_lateness": Cell.send_lateness})


def _words(key: "Key[Any]", value: Any) -> str:
    return str(value) if key.kind is str else f"{'QoS' if key.name == 'qos' else key.name} {value:g}"
