"""Show how a run goes: one line that rewrites itself in a terminal, plain lines elsewhere."""

import sys
from collections.abc import Iterable
from typing import Any, TextIO

from looplab.run.life import event_text

PLAIN_EVERY_S = 10.0
SHOWN = ("waiting", "repetition", "text")


def follow_run(events: Iterable[dict[str, Any]], stream: TextIO | None = None) -> dict[str, dict[str, Any]]:
    """Show on standard error what a controller reports until it ends; return the last event of each kind."""
    stream = stream or sys.stderr
    clear = "\r\x1b[K" if stream.isatty() else ""
    last: dict[str, dict[str, Any]] = {}
    said_s = -PLAIN_EVERY_S
    for event in events:
        kind = str(event.get("event"))
        last[kind] = event
        if kind == "repetition" and not clear:
            if event["messages_done"] < event["messages"] and event["elapsed_s"] - said_s < PLAIN_EVERY_S:
                continue
            said_s = event["elapsed_s"]
        if kind in SHOWN and (text := event_text(**event)):
            line = f"  {text}"[:79] if clear and kind != "text" else f"{text}\n"
            print(clear + line, end="", file=stream, flush=True)
    print(clear, end="", file=stream, flush=True)
    return last
