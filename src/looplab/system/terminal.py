"""Show on standard error what long work does, how long it has taken and what is left."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from functools import partial
from textwrap import fill
from typing import TextIO
from unicodedata import category

from looplab.system.words import show_duration

REFRESH_S = 0.5
# Where lines cannot be rewritten (a log, CI), one line now and then shows that work goes on.
HEARTBEAT_S = 30.0
LINE_WIDTH = 79


class Step:
    """One piece of long work, used as a context; `expected_s` is an estimate for the time left.

    On a terminal its line is renewed every `refresh_s`.
    """

    def __init__(
        self, title: str, expected_s: float = 0.0, stream: TextIO | None = None, refresh_s: float = REFRESH_S
    ) -> None:
        self.title = title
        self._expected_s = expected_s
        self._stream = stream if stream is not None else sys.stderr
        self._live = self._stream.isatty()
        self._pause_s = refresh_s if self._live else HEARTBEAT_S
        self._clear = "\r\x1b[K" if self._live else ""
        self._share = 0.0
        self._note = ""
        self._outcome = ""
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._keep_saying, daemon=True)
        self._begun_s = time.monotonic()

    def __enter__(self) -> Step:
        self._begun_s = time.monotonic()
        if not self._live:
            self._print(f"{self.title} ...")
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_rest: object) -> None:
        self._done.set()
        self._thread.join()
        result = self._outcome or ("done" if kind is None else "failed")
        self._print(f"{self._clear}{self.title}: {result} ({show_duration(self._elapsed_s())})")

    def advance(self, done: int, total: int, note: str = "") -> None:
        """Set how much of the work is done, for the estimate of the time left."""
        self._share = min(1.0, done / total) if total > 0 else 0.0
        self._note = note or f"{done} of {total}"

    def note(self, text: str) -> None:
        """Set what is being done, where pieces of the work differ too much to show how much is done."""
        self._note = text

    def finish_as(self, outcome: str) -> None:
        """Set the word that the closing line shows instead of "done"."""
        self._outcome = outcome

    def _elapsed_s(self) -> float:
        return time.monotonic() - self._begun_s

    def _status(self) -> str:
        elapsed_s = self._elapsed_s()
        left_s = self._left_s(elapsed_s)
        left = f"about {show_duration(left_s)} left" if left_s >= 1 else ""
        return f"{self.title} ... " + ", ".join(filter(None, (self._note, show_duration(elapsed_s), left)))

    def _left_s(self, elapsed_s: float) -> float:
        if self._share > 0.05:
            return elapsed_s * (1 - self._share) / self._share
        return self._expected_s - elapsed_s

    def _keep_saying(self) -> None:
        while not self._done.wait(self._pause_s):
            if self._live:
                self._print(self._clear + self._status()[:LINE_WIDTH], end="")
            else:
                self._print(self._status())

    def _print(self, text: str, end: str = "\n") -> None:
        print(text, end=end, file=self._stream, flush=True)


def printable(text: str) -> str:
    """Return `text` with `?` in place of what a terminal would obey: it may come from somebody else's file."""
    return "".join("?" if category(letter)[0] == "C" and letter != "\n" else letter for letter in text)


def fitted(text: str, stream: TextIO, indent: str = "  ") -> str:
    """Return a printable `text` with lines broken between words if `stream` is a terminal that is narrower."""
    text = printable(text)
    if not stream.isatty():
        return text
    width = shutil.get_terminal_size().columns
    wrap = partial(fill, width=width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return "\n".join(map(wrap, text.splitlines()))


def say(text: str) -> None:
    """Print a text for the person at the terminal, in its width; standard output stays free for results."""
    print(fitted(text, sys.stderr), file=sys.stderr, flush=True)
