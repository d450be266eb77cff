"""Errors that tell a person what happened and what to do about it."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches

EXIT_GOOD = 0
EXIT_INVALID = 1
EXIT_USAGE = 2
EXIT_MACHINE = 3


class LabError(Exception):
    """A problem with its remedy, for the user.

    `message` says what happened and where, `remedy` what to do (a command, a file, a variable),
    `exit_code` is one of the codes above: 1 invalid run, 2 wrong use, 3 the machine lacks something.
    """

    def __init__(self, message: str, remedy: str = "", exit_code: int = EXIT_INVALID) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.exit_code = exit_code

    def __str__(self) -> str:
        return f"{self.message}\n  {self.remedy}" if self.remedy else self.message

    @classmethod
    @contextmanager
    def of_os(cls, what: str, remedy: str) -> Iterator[None]:
        """Raise this error where an OSError ends the block: what failed, and why by the system."""
        try:
            yield
        except OSError as error:
            raise cls(f"{what}: {error.strerror or error}.", remedy) from error


class UsageError(LabError):
    """Wrong use (exit code 2): a command, a parameter or a file is not what the lab accepts."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message, remedy, EXIT_USAGE)


class MachineError(LabError):
    """This machine, or a part of the lab on it, lacks something (exit code 3)."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message, remedy, EXIT_MACHINE)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question with the names of `known` that are near, at most three; "" without one."""
    near = get_close_matches(name.lower(), list(known))
    return f"Did you mean {' or '.join(near)}? " if near else ""
