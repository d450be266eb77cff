"""The process around one run: signals, progress for a person or for ./lab, exit codes."""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from looplab.errors import EXIT_GOOD, EXIT_INVALID, LabError
from looplab.run.record import Place
from looplab.system import own_process
from looplab.system.words import plural, show_duration

PROCESS_NAME = "lab-controller"
REPEAT_INTERRUPT_S = 1.0


class Interrupted(Exception):
    """A signal asked the run to stop."""


def run_process(run: Callable[[Place], dict[str, Any]], summary: Callable[[dict[str, Any]], str]) -> int:
    """Have `run` make a run.json document and show it; progress is words for a person, or one JSON object a line
    for ./lab. Return 0 for a valid run, 1 for an invalid or interrupted one, else the exit code of its LabError."""
    own_process.set_name(PROCESS_NAME)
    signal.signal(signal.SIGALRM, _interrupt_again)
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGINT, _interrupt)
    as_json = os.environ.get("LOOPLAB_EVENTS") == "json"
    say = _say_json if as_json else _say_plain
    live = Path(os.environ["LIVE_DIR"]) if os.environ.get("LIVE_DIR") else None
    try:
        document = run(Place(Path(os.environ.get("RESULTS_DIR") or "results"), live, say))
    except LabError as error:
        say("error", message=error.message, remedy=error.remedy, exit_code=error.exit_code)
        if not as_json:
            print(error, file=sys.stderr, flush=True)
        return error.exit_code
    except Interrupted:
        heard()
        return EXIT_INVALID
    if as_json:
        say("finished", run_id=document["run_id"], valid=document["valid"])
    else:
        print(f"\n{summary(document)}\nMetrics are served until you stop the lab.", flush=True)
    return EXIT_GOOD if document["valid"] else EXIT_INVALID


def heard() -> None:
    """Note that the interruption was handled: it need not be raised again."""
    signal.setitimer(signal.ITIMER_REAL, 0)


def _say_json(event: str, **facts: Any) -> None:
    print(json.dumps({"event": event, **facts}), flush=True)


def _say_plain(event: str, **facts: Any) -> None:
    if event == "waiting":
        text = f"waiting for the {facts['what']}"
    elif event == "text":
        text = facts["text"]
    elif event == "plan":
        size = f"{plural(facts['cells'], 'cell')}, {plural(facts['messages'], 'message')}"
        text = f"{size}: about {show_duration(facts['seconds'])}"
    elif event == "repetition":
        done = f"{facts['messages_done']}/{facts['messages']} sent, about {facts['seconds_left']:.0f} s left"
        text = f"{facts['scenario']}: {facts['cell']}: {facts['answered']} answered, {done}"
    elif event == "interrupted":
        text = f"interrupted: {facts['why']}; {plural(facts['samples'], 'sample')} kept in results/{facts['path']}"
    else:
        return
    print(text, flush=True)


def _interrupt(_signal: int, _frame: object) -> None:
    # Handle one signal only: a second Ctrl-C must not interrupt the storing of what was measured.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.setitimer(signal.ITIMER_REAL, REPEAT_INTERRUPT_S, REPEAT_INTERRUPT_S)
    raise Interrupted


def _interrupt_again(_signal: int, _frame: object) -> None:
    # An exception that a signal raises within a finalizer is lost: said again until somebody has heard it.
    raise Interrupted
