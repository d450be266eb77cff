"""Show how a run goes: one line that rewrites itself in a terminal, plain lines elsewhere."""

import sys
from collections.abc import Iterable
from typing import Any, TextIO

from looplab.system.words import show_duration

BAR_WIDTH = 24
PLAIN_EVERY_S = 10.0


def follow_run(events: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Show what a controller reports until it ends; return the last event of each kind."""
    last, progress = {}, RunProgress()
    for event in events:
        progress.show(event)
        last[str(event.get("event"))] = event
    progress.close()
    return last


class RunProgress:
    """Shows the controller's events on standard error."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._clear = "\r\x1b[K" if self._stream.isatty() else ""
        self._said_s = -PLAIN_EVERY_S

    def show(self, event: dict[str, Any]) -> None:
        kind = event.get("event")
        if kind == "waiting":
            self._line(f"  waiting for the {event['what']}")
        elif kind == "repetition":
            self._repetition(event)
        elif kind == "text" and event["text"]:
            self._write(f"{event['text']}\n")

    def close(self) -> None:
        """End the line that is rewritten."""
        self._write("")

    def _repetition(self, event: dict[str, Any]) -> None:
        share = event["messages_done"] / event["messages"]
        left = show_duration(event["seconds_left"])
        cell = event["cell"]
        if self._clear:
            bar = "#" * round(share * BAR_WIDTH)
            self._line(f"  [{bar:<{BAR_WIDTH}}] {share:4.0%}  {cell:<18} {left} left")
        elif share == 1 or event["elapsed_s"] - self._said_s >= PLAIN_EVERY_S:
            self._said_s = event["elapsed_s"]
            self._line(f"  {share:4.0%}  {cell}, {left} left")

    def _line(self, text: str) -> None:
        self._write(text[:79] if self._clear else f"{text}\n")

    def _write(self, text: str) -> None:
        """Write a text in place of the line that is rewritten."""
        print(self._clear + text, end="", file=self._stream, flush=True)
