"""Parameters of a run, read from the environment that params.env and .env give a container."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self, TypeVar

from looplab.errors import LabError, UsageError
from looplab.treatments import NO_LOAD

FIDELITIES = ("thesis", "corrected")
# How a sender waits for the next message: an interval after the last one left, or until start + k * interval.
SLEEP, SCHEDULE = "sleep", "schedule"
PACINGS = (SLEEP, SCHEDULE)
HOST = r"[A-Za-z0-9_.-]{1,253}"
MAX_SAMPLES = 20_000_000

T = TypeVar("T")


def setting(how: "Callable[[Reader], object]") -> Any:
    """Return a field of Settings that `how` reads: a variable, its default, what it may be."""
    return field(metadata={"how": how})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a program reads from its environment, each field as its `setting` reads it."""

    @classmethod
    def of(cls, get: "Reader", **given: Any) -> Self:
        """Return the settings with the values that are `given`, the others as their fields read them.

        Raises LabError (exit code 2) naming the variable at fault.
        """
        how = {one.name: one.metadata["how"] for one in fields(cls) if "how" in one.metadata}
        return cls(**{name: reads(get) for name, reads in how.items() if name not in given}, **given)


@dataclass(frozen=True, kw_only=True)
class RunParameters(Settings, ABC):
    """What every experiment's parameters have; each adds its own, times in the unit their names say."""

    scenario: str
    fidelity: str = setting(lambda get: get.fidelity)
    messages: int
    repetitions: int = 1
    deadline_ms: int = 1000
    parts_timeout_s: int = setting(lambda get: get.integer("PARTS_TIMEOUT_S", 60, 1, 3600))
    # Part of every run.json; only the loop's scenarios set them.
    load: str = NO_LOAD
    apply_priority: bool = False
    priority_broker: int = 0
    priority_controller: int = 0

    @property
    @abstractmethod
    def cells(self) -> Sequence[Any]:
        """Its cells, in the order in which they are measured."""

    @property
    @abstractmethod
    def sending_s(self) -> float:
        """How long the sending alone takes."""

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


@dataclass(frozen=True)
class Option:
    """An option of `./lab run` and the variable that it sets.

    `--quick` sets nothing for a variable in `instead_of` if this option is given. run.json records the value under the
    variable's name in small letters, or as `recorded`.
    """

    flag: str
    variable: str
    metavar: str
    help: str
    choices: tuple[str, ...] = ()
    instead_of: tuple[str, ...] = ()
    # Experiments that share an option may record it under different names.
    recorded: str = field(default="", compare=False)

    @property
    def parameter(self) -> str:
        """Return the name under which run.json records the value."""
        return self.recorded or self.variable.lower()


# Those that an experiment shares with others.
INTERVALS = Option("--intervals", "INTERVALS_MS", "MS,…", "time between two messages, e.g. 100,50,20,10")
MESSAGES = Option("--messages", "MESSAGES", "N", "messages in a repetition, or in a cell")
REPETITIONS = Option("--repetitions", "REPETITIONS", "N", "repetitions of each cell")
QOS = Option("--qos", "QOS", "0,1,2", "quality of service, one cell each")
FIDELITY = Option("--fidelity", "FIDELITY", "", "as published, or as it was meant", FIDELITIES)
PACING = Option("--pacing", "PACING", "", "wait an interval after each message, or keep a schedule", PACINGS)


def quick_settings(quick: Mapping[str, str], options: Sequence[Option], given: Mapping[str, str]) -> dict[str, str]:
    """Return what `--quick` sets of `quick` beside the variables in `given`."""
    replaced = {name for option in options if option.variable in given for name in option.instead_of}
    return {name: value for name, value in quick.items() if name not in replaced}


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

    @property
    def corrected(self) -> bool:
        return self.fidelity == "corrected"

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
