"""Parameters of a run: fields that know their variable, range, default, option and quick value.

A parameter is one line of a class derived from `Settings`; its variable is the field's name in capitals:

    messages: int = integer(2000, 5, 1_000_000, option=MESSAGES, quick="200")
    tcp_nodelay: bool = switch({"thesis": False, "corrected": True})

The environment that params.env and .env give a container, the options of `./lab run` and the check of a scenario are
read from these fields.
"""

import random
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from itertools import product
from typing import Any, ClassVar, Self

from looplab.errors import UsageError
from looplab.spec.cell import Cell
from looplab.spec.reader import FIDELITIES, HOST, Reader, as_text, of_fidelity, read_number, read_qos

# How a sender waits for the next message: an interval after the last one left, or until start + k * interval.
SLEEP, SCHEDULE = PACINGS = ("sleep", "schedule")
PUBLISHED, RANDOM = ORDERS = ("published", "random")
MAX_SAMPLES, MOST_SEED = 20_000_000, 999_999_999

# Reads the variable of that name.
Read = Callable[[Reader, str], object]


@dataclass(frozen=True)
class Option:
    """An option of `./lab run` and the variable that it sets."""

    flag: str
    variable: str
    metavar: str
    help: str
    choices: tuple[str, ...] = ()


# Those that experiments share.
INTERVALS = Option("--intervals", "INTERVALS_MS", "MS,…", "time between two messages, e.g. 100,50,20,10")
MESSAGES = Option("--messages", "MESSAGES", "N", "messages in a repetition, or in a cell")
REPETITIONS = Option("--repetitions", "REPETITIONS", "N", "repetitions of each cell")
QOS = Option("--qos", "QOS", "0,1,2", "quality of service, one cell each")
FIDELITY = Option("--fidelity", "FIDELITY", "", "after the listings, published settings, no artefacts", FIDELITIES)
ORDER = Option("--order", "ORDER", "", "the order of the cells", ORDERS)
AS = Option("--as", "AS", "SCENARIO", "parts and treatments of that scenario, e.g. scenario5; or a load")
PACING = Option("--pacing", "PACING", "", "wait an interval after each message, or keep a schedule", PACINGS)


@dataclass(frozen=True)
class Param:
    """How a field is read: its variable ("" is the field's name in capitals), range and default, option, quick value.

    `default` may be one by fidelity, and then by scenario. `quick` is what `--quick` sets, perhaps by scenario ("" is
    any other). A parameter that does not matter is no part of what must agree before two
    runs are compared.
    """

    read: Read | None
    default: object = None
    variable: str = ""
    option: Option | None = None
    # Another option and variable that set the same field.
    also: Option | None = None
    quick: str | Mapping[str, str] = ""
    matters: bool = True
    # A run with another value than the usual one is shown beside the usual runs.
    factor: bool = False

    def usual(self, fidelity: str, scenario: str = "") -> str:
        """Return its default as params.env writes it."""
        return as_text(of_fidelity(self.default, fidelity, scenario))

    def is_usual(self, value: object, fidelity: str, scenario: str = "") -> bool:
        """Return whether a stored value is the default, or a list with it: its cells are among the others."""
        usual = self.usual(fidelity, scenario)
        return as_text(value) == usual or (isinstance(value, list | tuple) and usual in map(as_text, value))

    def variable_of(self, name: str) -> str:
        """Return the variable of the field `name`."""
        return self.variable or (self.option.variable if self.option else name.upper())


def param(read: Read | None = None, default: object = None, **more: Any) -> Any:
    """Return a field that `read` reads; without it, one that the class gives itself. `more` is as in Param."""
    return field(metadata={"param": Param(read, default, **more)})


def _read_by(read: Callable[..., object]) -> Callable[..., Any]:
    """Return what makes fields that a method of Reader reads.

    It takes the default, what the method takes behind it, and `more` as in Param.
    """

    def made(default: object, *arguments: Any, **more: Any) -> Any:
        return param(lambda get, name: read(get, name, get.default(default), *arguments), default, **more)

    return made


# Numbers from one to another; on or off; one or more words of some; a list of what a function reads; text of a pattern.
integer, number, switch = _read_by(Reader.integer), _read_by(Reader.number), _read_by(Reader.switch)
choice, words = _read_by(Reader.choice), _read_by(Reader.words)
listed, matching = _read_by(Reader.list), _read_by(Reader.matching)


def numbers(default: object, low: float, high: float, **more: Any) -> Any:
    """Return a field for a list of numbers from `low` to `high`."""

    def one(text: str) -> float:
        value = read_number(text)
        if not low <= value <= high:
            raise ValueError(text)
        return value

    return listed(default, one, f"numbers from {low:g} to {high:g}, e.g. 100,50,20,10", **more)


def host(default: str, **more: Any) -> Any:
    """Return a field for a host, which no comparison depends on."""
    return matching(default, HOST, "a host name or an address", matters=False, **more)


def qos_list(default: str) -> Any:
    """Return the field of the qualities of service, one cell each."""
    return listed(default, read_qos, "0, 1 or 2, e.g. 0,1,2", option=QOS)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a program reads from its environment, each field as its Param says."""

    @classmethod
    def params(cls) -> dict[str, Param]:
        """Return the parameters by field."""
        return {one.name: one.metadata["param"] for one in fields(cls) if "param" in one.metadata}

    @classmethod
    def of(cls, get: Reader, **given: Any) -> Self:
        """Return the settings with the values that are `given`, the others as their fields read them.

        Raises LabError (exit code 2) naming the variable at fault.
        """
        return cls(
            **{
                name: one.read(get, one.variable_of(name))
                for name, one in cls.params().items()
                if one.read is not None and name not in given
            },
            **given,
        )

    @classmethod
    def options(cls) -> list[Option]:
        """Return the options of `./lab run`, in the order of the fields."""
        return [option for one in cls.params().values() for option in (one.also, one.option) if option]

    @classmethod
    def factors(cls) -> dict[str, Param]:
        """Return by variable what two runs that are compared have in common: the rows of docs/factors.tsv."""
        named = [(one.variable_of(name), one) for name, one in cls.params().items() if one.matters and one.read]
        # Several fields of one variable: that with a default is the last.
        own = dict(sorted(named, key=lambda pair: pair[1].default is not None))
        return {name: own[name] for name, _ in named if name != "SCENARIO"}

    @classmethod
    def quick_preset(cls, scenario: str = "", given: Collection[str] = ()) -> dict[str, str]:
        """Return the variables that `--quick` sets for a scenario, of fields that no variable in `given` sets."""
        variables: dict[str, str] = {}
        for name, one in cls.params().items():
            text = one.quick if isinstance(one.quick, str) else one.quick.get(scenario, one.quick.get("", ""))
            if text and not any(option and option.variable in given for option in (one.option, one.also)):
                variables[one.also.variable if one.also else one.variable_of(name)] = text
        return variables


@dataclass(frozen=True, kw_only=True)
class RunParameters(Settings):
    """What every experiment's parameters have; each adds its own, times in the unit their names say.

    Its cells are all combinations of what the keys of `cell` name as their `values`.
    """

    cell: ClassVar[type[Cell]] = Cell
    # The variables to lower if the messages are more than a run can hold.
    lower: ClassVar[str] = "MESSAGES, or the number of cells"
    # Error message where there are no printed clients, "" where there are.
    no_printed: ClassVar[str] = "FIDELITY=printed follows the thesis's listings, so only the control loop has it."
    scenario: str = matching(None, r"[a-z0-9][a-z0-9_-]{0,40}", "lower-case letters, digits, - and _", matters=False)
    title: str = matching("", r".{0,120}", "at most 120 letters", matters=False)
    fidelity: str = choice("thesis", FIDELITIES, option=FIDELITY, matters=False)
    # Whether its parts run on a Swarm, where no part sees the processes of another.
    swarm = False
    # Whether its messages are another's, whose number the run knows at its end.
    watches: ClassVar[bool] = False
    messages: int
    repetitions: int = 1
    deadline_ms: int = 1000
    parts_timeout_s: int = integer(60, 1, 3600, matters=False)

    @classmethod
    def read(cls, environment: Mapping[str, str], folder: str = "") -> Self:
        """Read and check every parameter; `folder` holds params.env. Raises LabError (exit code 2)."""
        read = cls.of(Reader(environment, folder))
        if read.fidelity == "printed" and cls.no_printed:
            raise UsageError(cls.no_printed, "Take thesis or corrected.")
        parameters = read.checked(environment)
        if parameters.samples > MAX_SAMPLES:
            much = f"{parameters.samples:,} messages are more than one run can hold ({MAX_SAMPLES:,})."
            raise UsageError(much, f"Lower {cls.lower}.")
        return parameters

    def checked(self, environment: Mapping[str, str]) -> Self:
        """Return them if they fit together, with what follows from that. Raises LabError (exit code 2)."""
        return self

    @property
    def cells(self) -> Sequence[Cell]:
        """Its cells, in the order in which they are measured; nothing but their key is known."""
        return self.published_cells

    @property
    def schedule(self) -> Sequence[Any]:
        """Its cells as they are measured one after the other; one that is measured again comes again."""
        return self.cells

    @property
    def published_cells(self) -> Sequence[Cell]:
        """Its cells, in the order of run.json. The last key is the slowest to change."""
        keys = self.cell.key_columns()[::-1]
        return [self.cell.keyed(*values[::-1]) for values in product(*(getattr(self, key.values) for key in keys))]

    def pace_ms(self, cell: Cell) -> float:
        """Return how long after a message of a cell the next one leaves."""
        return next((float(key.of(cell)) for key in cell.key_columns() if key.pace), 0.0)

    def message_ms(self, cell: Cell) -> float:
        """Return about how long a message of a cell takes with all that it causes."""
        return self.pace_ms(cell)

    @property
    def overhead_s(self) -> float:
        """How long a cell takes besides its messages."""
        return 0.0

    @property
    def longest_gap_ms(self) -> float:
        """How long its sender may be silent between two messages, if that is more than some seconds."""
        return max(map(self.pace_ms, self.cells))

    @property
    def total_s(self) -> float:
        """About how long the whole run takes, apart from the answers that it waits for."""
        return self.left_s(0)

    def left_s(self, done: int) -> float:
        """Return about how much longer the run takes after `done` of its messages."""
        ends = [(cell, self.rows(index)) for index, cell in enumerate(self.cells)]
        messages_ms = (self.message_ms(cell) * max(0, rows.stop - max(done, rows.start)) for cell, rows in ends)
        return sum(messages_ms) / 1000 + self.overhead_s * (len(ends) - done // len(self.rows(0)))

    @property
    def samples(self) -> int:
        """Messages in the whole run, warm-up apart."""
        return len(self.cells) * self.messages * self.repetitions

    def rows(self, cell: int) -> range:
        """Return the rows of a cell in the sample store."""
        size = self.messages * self.repetitions
        return range(cell * size, (cell + 1) * size)

    def as_json(self) -> dict[str, Any]:
        """Return the effective parameters as run.json stores them."""
        return asdict(self)

    @classmethod
    def of_json(cls, document: Mapping[str, Any]) -> Self:
        """Return the parameters that `as_json` stored. Raises KeyError, TypeError for another document."""
        return cls(**{one.name: _with_tuples(document[one.name]) for one in fields(cls)})


def _with_tuples(value: Any) -> Any:
    return tuple(map(_with_tuples, value)) if isinstance(value, list) else value


@dataclass(frozen=True, kw_only=True)
class OrderedParameters(RunParameters):
    """Parameters of a run whose cells are measured at random, by a seed that is drawn if it is not given."""

    order: str = choice(RANDOM, ORDERS, option=ORDER)
    order_seed: int = integer(0, 0, MOST_SEED, matters=False)

    @classmethod
    def read(cls, environment: Mapping[str, str], folder: str = "") -> Self:
        parameters = super().read(environment, folder)
        drawn = parameters.order == RANDOM and not parameters.order_seed
        return replace(parameters, order_seed=1 + secrets.randbelow(MOST_SEED)) if drawn else parameters

    @cached_property
    def cells(self) -> Sequence[Any]:
        """Its cells, in the order in which they are measured; repetitions that are cells follow each other."""
        if self.order == PUBLISHED:
            return self.published_cells
        chance = random.Random(self.order_seed)
        cells = sorted(self.published_cells, key=lambda _cell: chance.random())
        return sorted(cells, key=lambda cell: cell.document.get("repetition", 0))
