"""The life of a run, the same for every experiment: measure, judge, store; or keep what an interrupted run has."""

import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from looplab.errors import EXIT_GOOD, EXIT_INVALID, LabError
from looplab.run.cells import CellRun
from looplab.run.record import Place
from looplab.run.table import WIDTH, cells_table
from looplab.spec.brokers import BROKERS, DEFAULT
from looplab.spec.experiment import Experiment
from looplab.system import own_process
from looplab.system.words import plural, show_duration

PROCESS_NAME = "lab-controller"
REPEAT_INTERRUPT_S = 1.0
NARROW = 65  # Plain Compose puts the name of a scenario before each line: of 80 columns so many are left.


class Interrupted(Exception):
    """A signal asked the run to stop."""


def main(experiment: Experiment) -> int:
    """Run `experiment` from the environment; return 0 for a valid run, 1 invalid or interrupted, else LabError's code.

    Its controller.py has a `Controller(parameters, place)`, which is a CellRun. Progress is words for a person, or one
    JSON object a line for ./lab.
    """
    own_process.set_name(PROCESS_NAME)
    signal.signal(signal.SIGALRM, _interrupt_again)
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGINT, _interrupt)
    environment = os.environ
    as_json = environment.get("LOOPLAB_EVENTS") == "json"
    say = _say_json if as_json else _say_plain
    live_folder = Path(environment["LIVE_DIR"]) if environment.get("LIVE_DIR") else None
    place = Place(Path(environment.get("RESULTS_DIR") or "results"), live_folder, say)
    try:
        document = live(experiment.part("controller").Controller(experiment.read_parameters(environment), place))
    except LabError as error:
        say("error", message=error.message, remedy=error.remedy, exit_code=error.exit_code)
        if not as_json:
            print(error, file=sys.stderr, flush=True)
        return error.exit_code
    except Interrupted:
        _hear()
        return EXIT_INVALID
    if as_json:
        say("finished", run_id=document["run_id"], valid=document["valid"])
    else:
        print(f"\n{summary(experiment, [document], NARROW)}\nMetrics are served until you stop the lab.", flush=True)
    return EXIT_GOOD if document["valid"] else EXIT_INVALID


def summary(experiment: Experiment, runs: Sequence[dict[str, Any]], width: int = WIDTH) -> str:
    """Return what runs (run.json documents) end with: the experiment's summary of all, or the table of each."""
    if own := getattr(experiment.optional_part("table"), "summary", None):
        return str(own(runs, width))
    return "\n\n".join(f"{run_table(experiment, run)}\n  Kept in results/{run['run_id']}" for run in runs)


def run_table(experiment: Experiment, run: dict[str, Any]) -> str:
    """Return the table of a run (a run.json document) for a terminal of 80 columns."""
    show = getattr(experiment.optional_part("table"), "table", cells_table)
    return str(show(run, experiment.table(run["scenario"])))


def live(run: CellRun[Any, Any]) -> dict[str, Any]:
    """Measure, store, and return the run.json document. Raises LabError, Interrupted."""
    record = run.record
    try:
        run.measure()
        record.versions = _versions(run)
        contents = {**run.contents(), "interference": run.interference}
        document = record.document(run.treatments(), contents, run.faults())
        record.rewrite()
    except (Interrupted, KeyboardInterrupt):
        _hear()
        record.keep("interrupted")
        raise Interrupted from None
    except LabError as error:
        record.keep(str(error))
        raise
    finally:
        run.close()
    record.finish(document)
    return document


def _versions(run: CellRun[Any, Any]) -> dict[str, str]:
    """Return what the broker reports, and what the run has read already; nothing of who does not answer."""
    # ./lab imports this module on a host without paho.
    from looplab.treatments.broker import version

    versions = {"broker": version(BROKERS[DEFAULT], *run.broker)} if run.broker else {}
    return {name: one for name, one in {**versions, **run.record.versions}.items() if one}


def _hear() -> None:
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
