"""Parameters of a run: fields that know their variable, range, default, option and quick value.

A parameter is one line of a class derived from `Settings`; its variable is the field's name in capitals:

    messages: int = integer(2000, 5, 1_000_000, option=MESSAGES, quick="200")
    tcp_nodelay: bool = switch({"thesis": False, "corrected": True})

The environment that params.env and .env give a container, the options of `./lab run` and the check of a scenario are
read from these fields.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self, TypeVar

from looplab.errors import LabError, UsageError
from looplab.spec.columns import Cell

FIDELITIES = ("thesis", "corrected")
# How a sender waits for the next message: an interval after the last one left, or until start + k * interval.
SLEEP, SCHEDULE = "sleep", "schedule"
PACINGS = (SLEEP, SCHEDULE)
HOST = r"[A-Za-z0-9_.-]{1,253}"
MAX_SAMPLES = 20_000_000

T = TypeVar("T")
# Reads the variable of that name.
Read = Callable[["Reader", str], object]


@dataclass(frozen=True)
class Option:
    """An option of `./lab run` and the variable that it sets.

    `--quick` sets nothing for a variable in `instead_of` if this option is given.
    """

    flag: str
    variable: str
    metavar: str
    help: str
    choices: tuple[str, ...] = ()
    instead_of: tuple[str, ...] = ()


# Those that experiments share.
INTERVALS = Option("--intervals", "INTERVALS_MS", "MS,…", "time between two messages, e.g. 100,50,20,10")
MESSAGES = Option("--messages", "MESSAGES", "N", "messages in a repetition, or in a cell")
REPETITIONS = Option("--repetitions", "REPETITIONS", "N", "repetitions of each cell")
QOS = Option("--qos", "QOS", "0,1,2", "quality of service, one cell each")
FIDELITY = Option("--fidelity", "FIDELITY", "", "as published, or without known artefacts", FIDELITIES)
PACING = Option("--pacing", "PACING", "", "wait an interval after each message, or keep a schedule", PACINGS)


@dataclass(frozen=True)
class Param:
    """How a field is read: its variable ("" is the field's name in capitals), range and default, option, quick value.

    `default` may be one by fidelity. `quick` and `full` are what `--quick` and `--full` set, perhaps by scenario ("" is
    any other). A parameter that does not matter is no part of what must agree before two runs are compared.
    """

    read: Read | None
    default: object = None
    variable: str = ""
    option: Option | None = None
    # Another option and variable that set the same field.
    also: Option | None = None
    quick: str | Mapping[str, str] = ""
    full: str = ""
    matters: bool = True
    # A run with another value than the usual one is shown beside the usual runs.
    factor: bool = False

    def usual(self, fidelity: str) -> str:
        """Return its default as params.env writes it."""
        return as_text(self.default[fidelity] if isinstance(self.default, Mapping) else self.default)

    def variable_of(self, name: str) -> str:
        """Return the variable of the field `name`."""
        return self.variable or (self.option.variable if self.option else name.upper())


def param(read: Read | None = None, default: object = None, **more: Any) -> Any:
    """Return a field that `read` reads; without it, one that `read_parameters` gives itself. `more` is as in Param."""
    return field(metadata={"param": Param(read, default, **more)})


def integer(default: object, low: int, high: int, **more: Any) -> Any:
    """Return a field for a whole number from `low` to `high`."""
    return param(lambda get, name: get.integer(name, get.default(default), low, high), default, **more)


def number(default: object, low: float, high: float, **more: Any) -> Any:
    """Return a field for a number from `low` to `high`."""
    return param(lambda get, name: get.number(name, get.default(default), low, high), default, **more)


def switch(default: object, **more: Any) -> Any:
    """Return a field that is on or off."""
    return param(lambda get, name: get.switch(name, get.default(default)), default, **more)


def choice(default: object, allowed: tuple[str, ...], **more: Any) -> Any:
    """Return a field for one word of `allowed`."""
    return param(lambda get, name: get.choice(name, get.default(default), allowed), default, **more)


def words(default: object, allowed: tuple[str, ...], **more: Any) -> Any:
    """Return a field for one or more words of `allowed`."""
    return param(lambda get, name: get.words(name, get.default(default), allowed), default, **more)


def listed(default: object, one: Callable[[str], object], expected: str, **more: Any) -> Any:
    """Return a field for a list: `one` reads an entry or raises ValueError, `expected` describes all."""
    return param(lambda get, name: get.list(name, get.default(default), one, expected), default, **more)


def matching(default: str | None, pattern: str, expected: str, **more: Any) -> Any:
    """Return a field for text that matches `pattern` whole; `expected` describes it."""
    return param(lambda get, name: get.matching(name, default, pattern, expected), default, **more)


def host(default: str, **more: Any) -> Any:
    """Return a field for a host, which no comparison depends on."""
    return param(lambda get, name: get.host(name, default), default, matters=False, **more)


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
    def of(cls, get: "Reader", **given: Any) -> Self:
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
    def preset(cls, kind: str, scenario: str = "") -> dict[str, str]:
        """Return the variables that `--quick` or `--full` (`kind` without dashes) sets for a scenario."""
        return dict(_preset(cls.params(), kind, scenario))


def _preset(params: Mapping[str, Param], kind: str, scenario: str) -> Iterator[tuple[str, str]]:
    for name, one in params.items():
        value = getattr(one, kind)
        text = value if isinstance(value, str) else value.get(scenario, value.get("", ""))
        if text:
            yield one.also.variable if one.also else one.variable_of(name), text


@dataclass(frozen=True, kw_only=True)
class RunParameters(Settings, ABC):
    """What every experiment's parameters have; each adds its own, times in the unit their names say."""

    scenario: str = param(matters=False)
    fidelity: str = choice("thesis", FIDELITIES, option=FIDELITY, matters=False)
    messages: int
    repetitions: int = 1
    deadline_ms: int = 1000
    parts_timeout_s: int = integer(60, 1, 3600, matters=False)

    @property
    @abstractmethod
    def cells(self) -> Sequence[Cell]:
        """Its cells, in the order in which they are measured; nothing but their key is known."""

    @property
    @abstractmethod
    def sending_s(self) -> float:
        """How long the sending alone takes."""

    @property
    def longest_gap_ms(self) -> float:
        """How long its sender may be silent between two messages, if that is more than some seconds."""
        return 0.0

    @property
    def whole_s(self) -> float:
        """About how long the whole run takes, apart from the answers that it waits for."""
        return self.sending_s

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


def quick_settings(quick: Mapping[str, str], options: Sequence[Option], given: Mapping[str, str]) -> dict[str, str]:
    """Return what `--quick` sets of `quick` beside the variables in `given`."""
    replaced = {name for option in options if option.variable in given for name in option.instead_of}
    return {name: value for name, value in quick.items() if name not in replaced}


def as_text(value: object) -> str:
    """Return a parameter as params.env has it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list | tuple):
        return " ".join(as_text(one) for one in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def check_samples(parameters: RunParameters, lower: str) -> None:
    """Raise LabError (exit code 2) for more messages than one run holds; `lower` names the variables to lower."""
    if parameters.samples > MAX_SAMPLES:
        raise UsageError(
            f"{parameters.samples:,} messages are more than one run can hold ({MAX_SAMPLES:,}).", f"Lower {lower}."
        )


def read_number(text: str) -> float:
    """Return a whole number where it is one, so that 20 is not stored as 20.0. Raises ValueError for no number."""
    value = float(text)
    return int(value) if value.is_integer() else value


def read_qos(text: str) -> int:
    """Return a quality of service. Raises ValueError for anything else."""
    if text not in ("0", "1", "2"):
        raise ValueError(text)
    return int(text)


class Reader:
    """Reads variables; an empty one counts as absent, as in Compose files. `folder` holds params.env."""

    def __init__(self, environment: Mapping[str, str], folder: str) -> None:
        self._environment = environment
        self._folder = folder

    def _text(self, name: str, default: str | None) -> str:
        # A file saved on Windows ends its lines with CR, which env_file hands on.
        text = self._environment.get(name, "").strip()
        if text:
            return text
        if default is None:
            raise UsageError(f"{name} is not set.", self._where(name))
        return default

    def _where(self, name: str) -> str:
        places = f"an option of the command, the shell, .env, or {name} in {self._folder}/params.env"
        return f"Correct it where it is set: {places}."

    def _wrong(self, name: str, text: str, expected: str) -> LabError:
        return UsageError(f"{name}={text!r}: expected {expected}.", self._where(name))

    @property
    def fidelity(self) -> str:
        return self.choice("FIDELITY", "thesis", FIDELITIES)

    def default(self, default: Any) -> Any:
        """Return a default, of several that of the run's fidelity."""
        return default[self.fidelity] if isinstance(default, Mapping) else default

    def choice(self, name: str, default: str, allowed: tuple[str, ...]) -> str:
        text = self._text(name, default)
        if text not in allowed:
            raise self._wrong(name, text, "one of " + ", ".join(allowed))
        return text

    def matching(self, name: str, default: str | None, pattern: str, expected: str) -> str:
        text = self._text(name, default)
        if not re.fullmatch(pattern, text):
            raise self._wrong(name, text, expected)
        return text

    def integer(self, name: str, default: int, low: int, high: int) -> int:
        text = self._text(name, str(default))
        if not re.fullmatch(r"[0-9]{1,12}", text) or not low <= int(text) <= high:
            raise self._wrong(name, text, f"a whole number from {low} to {high}")
        return int(text)

    def number(self, name: str, default: float, low: float, high: float) -> float:
        text = self._text(name, f"{default:g}")
        if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6})?", text) or not low <= float(text) <= high:
            raise self._wrong(name, text, f"a number from {low:g} to {high:g}")
        return read_number(text)

    def switch(self, name: str, default: bool) -> bool:
        text = self._text(name, "on" if default else "off").lower()
        if text not in ("on", "off"):
            raise self._wrong(name, text, "on or off")
        return text == "on"

    def host(self, name: str, default: str) -> str:
        return self.matching(name, default, HOST, "a host name or an address")

    def words(self, name: str, default: str, allowed: tuple[str, ...]) -> tuple[str, ...]:
        def one(text: str) -> str:
            if text not in allowed:
                raise ValueError(text)
            return text

        return self.list(name, default, one, f"one or more of {', '.join(allowed)}")

    def list(self, name: str, default: str, one: Callable[[str], T], expected: str) -> tuple[T, ...]:
        text = self._text(name, default)
        try:
            values = tuple(one(part) for part in re.split(r"[,\s]+", text))
        except ValueError:
            raise self._wrong(name, text, expected) from None
        if len(set(values)) != len(values):
            raise self._wrong(name, text, "each value once")
        return values
