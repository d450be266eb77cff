"""A terminal for what prints: remembers what was written."""

import contextlib
import io
from collections.abc import Iterator

import pytest


class Terminal(io.StringIO):
    """Standard output or standard error as a person has it."""

    def isatty(self) -> bool:
        return True


@contextlib.contextmanager
def printing_to_a_terminal(columns: int = 80) -> Iterator[Terminal]:
    """Standard output is a terminal of this width."""
    stream = Terminal()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(stream):
        patch.setenv("COLUMNS", str(columns))
        yield stream
