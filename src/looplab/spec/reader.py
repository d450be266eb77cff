"""Read variables of the environment, each with a range; an error names the variable and where to set it."""

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from looplab.errors import LabError, UsageError

FIDELITIES = ("printed", "thesis", "corrected")
HOST = r"[A-Za-z0-9_.-]{1,253}"

T = TypeVar("T")


def of_fidelity(default: Any, fidelity: str, scenario: str = "") -> Any:
    """Return a default, of several that of the scenario, else of the fidelity; `printed` may have the thesis's."""
    if not isinstance(default, Mapping):
        return default
    return next(default[name] for name in (scenario, fidelity, "thesis") if name in default)


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
    """Reads variables; an empty one counts as absent, as in Compose files. `folder` holds params.env, or is a file."""

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
        file = self._folder if self._folder.endswith(".yaml") else f"{self._folder}/params.env"
        return f"Correct it where it is set: an option of the command, the shell, .env, or {name} in {file}."

    def _wrong(self, name: str, text: str, expected: str) -> LabError:
        return UsageError(f"{name}={text!r}: expected {expected}.", self._where(name))

    @property
    def fidelity(self) -> str:
        return self.choice("FIDELITY", "thesis", FIDELITIES)

    def given(self, name: str) -> bool:
        """Return whether a variable is set."""
        return bool(self._environment.get(name, "").strip())

    def default(self, default: Any) -> Any:
        """Return a default, of several that of the run's scenario, else of its fidelity."""
        return of_fidelity(default, self.fidelity, self._environment.get("SCENARIO", "").strip())

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


def as_text(value: object) -> str:
    """Return a parameter as params.env has it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list | tuple):
        return " ".join(as_text(one) for one in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
