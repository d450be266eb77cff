"""The process around one run: signals, progress for a person or for ./lab, exit codes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from looplab.errors import EXIT_GOOD, EXIT_INVALID, EXIT_MACHINE, LabError
from looplab.run.folder import RunFolder
from looplab.run.samples import SampleStore
from looplab.system import processes

PROCESS_NAME = "lab-controller"
REPEAT_INTERRUPT_S = 1.0

Say = Callable[..., None]


class Interrupted(Exception):
    """Somebody asked the run to stop."""


def run_process(
    run: Callable[[Path, Path | None, Say], dict[str, Any]], say_plain: Say, table: Callable[[dict[str, Any]], str]
) -> int:
    """Have `run(results, live, say)` make a run.json document and show it.

    `say(event, **facts)` reports progress: `say_plain` for a person, one JSON object a line for ./lab. Exit code 0
    valid run, 1 invalid or interrupted, else that of its LabError.
    """
    processes.set_name(PROCESS_NAME)
    signal.signal(signal.SIGALRM, _interrupt_again)
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGINT, _interrupt)
    as_json = os.environ.get("LOOPLAB_EVENTS") == "json"
    say = _say_json if as_json else say_plain
    live = Path(os.environ["LIVE_DIR"]) if os.environ.get("LIVE_DIR") else None
    try:
        document = run(Path(os.environ.get("RESULTS_DIR") or "results"), live, say)
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
        print(
            f"\n{table(document)}\nstored in results/{document['run_id']}; metrics are served until you stop the lab",
            flush=True,
        )
    return EXIT_GOOD if document["valid"] else EXIT_INVALID


def live_store(samples: int, live: Path | None) -> SampleStore:
    """Rows for a run's messages, in `live` where the exporter reads along. Raises LabError (exit code 3)."""
    try:
        return SampleStore(samples, live / "samples.bin" if live else None)
    except OSError as error:
        raise LabError(
            f"Cannot hold {samples:,} live samples in {live or 'memory'}: {error.strerror}.",
            "Lower MESSAGES or REPETITIONS, or enlarge the volume `live` in compose/shared.yaml.",
            EXIT_MACHINE,
        ) from error


def write_state(live: Path | None, document: dict[str, Any]) -> None:
    """What the exporter needs to read the live samples; written between repetitions only."""
    if live is None:
        return
    fresh = live / "state.json.new"
    fresh.write_text(json.dumps(document))
    fresh.replace(live / "state.json")


def keep_interrupted(
    folder: RunFolder, store: SampleStore, scenario: str, why: str, write_all: Callable[[], None]
) -> str:
    """Keep every sample of an interrupted run: its folder's name; "" where nothing was sent and nothing is left."""
    if not any(store["state"]):
        folder.discard()
        return ""
    # Where the disk is full, what was appended on the way stays as it is, and the folder gets its name all the same.
    with contextlib.suppress(LabError):
        write_all()
    with contextlib.suppress(LabError):
        folder.interrupt({"run_id": folder.run_id, "scenario": scenario, "interrupted_because": why})
    return folder.path.name


def heard() -> None:
    """The interruption has reached somebody: it need not be raised again."""
    signal.setitimer(signal.ITIMER_REAL, 0)


def _say_json(event: str, **facts: Any) -> None:
    print(json.dumps({"event": event, **facts}), flush=True)


def _interrupt(_signal: int, _frame: object) -> None:
    # Once is enough: a second Ctrl-C must not cut short the keeping of what was measured.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.setitimer(signal.ITIMER_REAL, REPEAT_INTERRUPT_S, REPEAT_INTERRUPT_S)
    raise Interrupted


def _interrupt_again(_signal: int, _frame: object) -> None:
    # An exception that a signal raises within a finalizer is lost: said again until somebody has heard it.
    raise Interrupted
