"""Show how a run goes: one line that rewrites itself in a terminal, plain lines elsewhere."""

import sys
from collections.abc import Iterable, Mapping
from typing import Any, TextIO

from looplab.system.words import show_duration

BAR_WIDTH = 24
PLAIN_EVERY_S = 10.0


def follow_run(events: Iterable[dict[str, Any]], stream: TextIO | None = None) -> dict[str, dict[str, Any]]:
    """Show what a controller reports on `stream` (standard error) until it ends; return the last event of each kind."""
    stream = stream or sys.stderr
    clear = "\r\x1b[K" if stream.isatty() else ""
    said_s, last = -PLAIN_EVERY_S, {}
    for event in events:
        kind = str(event.get("event"))
        last[kind] = event
        if kind == "repetition" and not clear and event["messages_done"] < event["messages"]:
            if event["elapsed_s"] - said_s < PLAIN_EVERY_S:
                continue
            said_s = event["elapsed_s"]
        if line := _line(kind, event, bool(clear)):
            text = line[:79] if clear and kind != "text" else f"{line}\n"
            print(clear + text, end="", file=stream, flush=True)
    print(end=clear, file=stream, flush=True)
    return last


def _line(kind: str, event: Mapping[str, Any], live: bool) -> str:
    """Return what is shown of an event, "" for nothing; with a bar where the line rewrites itself."""
    if kind == "waiting":
        return f"  waiting for the {event['what']}"
    if kind == "repetition":
        share, left = event["messages_done"] / event["messages"], show_duration(event["seconds_left"])
        if live:
            return f"  [{'#' * round(share * BAR_WIDTH):<{BAR_WIDTH}}] {share:4.0%}  {event['cell']:<18} {left} left"
        return f"  {share:4.0%}  {event['cell']}, {left} left"
    return str(event["text"]) if kind == "text" else ""
