"""A Cell is one row of an experiment's table: its attributes are the columns of looplab.spec.columns."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Self

from looplab.spec.columns import Column, Count, Figure, Key, Latency, Word
from looplab.spec.document import Document


class Cell:
    """One row of an experiment's table: a cell of run.json. Of several runs alike, `runs` holds that of each.

    `note` explains, above the terminal's table, what headings cannot.
    """

    columns: ClassVar[Mapping[str, Column[Any]]] = MappingProxyType({})
    note: ClassVar[str] = ""
    # JSON schemas of what run.json holds of the whole run beside its frame, by key.
    of_run: ClassVar[Mapping[str, Document]] = MappingProxyType({})
    # What samples.csv calls `received_ns`, when a message had its outcome.
    received: ClassVar[str] = "received_ns"
    runs: "Sequence[Cell]" = ()
    send_lateness = Latency("how long after its due time a message left", times=("due_ns", "sent_ns"))

    def __init_subclass__(cls) -> None:
        classes = list(reversed(cls.__mro__))
        # Columns that all tables share come last.
        classes.sort(key=lambda base: base.__module__ == __name__)
        named = (one for base in classes for one in vars(base).items())
        own = {name: one for name, one in named if isinstance(one, Column)}
        cls.columns = MappingProxyType({name: getattr(cls, name) for name in own})

    def __init__(self, document: Document) -> None:
        self.document = document

    @classmethod
    def picture(cls, _newest: Mapping[str, float], _lines: int) -> str:
        """Return what a terminal draws of the newest further figures, in so many lines; "" for nothing."""
        return ""

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
    def words(cls) -> list[Word]:
        return list(cls.of_kind(Word))

    @classmethod
    def figure_names(cls) -> Iterator[str]:
        """Yield what a claim or an exercise may ask about a cell: "O.p95", "lost", "lost_share", "interval_ms"."""
        for column in cls.columns.values():
            yield from (f"{column.name}.{part}" for part in column.parts)
            if isinstance(column, Count | Figure) or (isinstance(column, Key) and column.kind is not str):
                yield column.name
            if isinstance(column, Count):
                yield f"{column.name}_share"

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
    def key_texts(self) -> dict[str, str]:
        """The texts of its key by name, as samples.csv writes them."""
        return {key.name: key.text(value) for key, value in zip(self.key_columns(), self.key, strict=True)}

    @property
    def key_document(self) -> dict[str, Any]:
        """The part of the cell's document that is its key."""
        return {key.name: self.document[key.name] for key in self.key_columns()}

    def __str__(self) -> str:
        """Return the cell in words: "10 + 10 ms, QoS 2", "java, tcp"."""
        named = list(zip(self.key_columns(), self.key, strict=True))
        times = " + ".join(f"{value:g}" for key, value in named if key.name.endswith("_ms"))
        others = [_words(key, value) for key, value in named if not key.name.endswith("_ms")]
        return ", ".join([f"{times} ms", *others] if times else others)

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


class Paced(Cell):
    """A cell whose messages a pacing sends: samples.csv has when each was intended, start + k * interval."""

    schedule_lateness = Latency(
        "how much later than start + k * interval messages left; with pacing `sleep`, each delay adds to it",
        times=("intended_ns", "sent_ns"),
    )
