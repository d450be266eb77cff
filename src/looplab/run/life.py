"""The life of a run, the same for every experiment: measure, judge, store; or keep what an interrupted run has."""

import os
from collections.abc import Sequence
from typing import Any

from looplab.errors import LabError
from looplab.run.cells import CellRun
from looplab.run.process import Interrupted, heard, run_process
from looplab.run.table import WIDTH, cells_table
from looplab.spec.brokers import BROKERS, DEFAULT
from looplab.spec.experiment import Experiment

NARROW = 65  # Plain Compose puts the name of a scenario before each line: of 80 columns so many are left.
PROMETHEUS_URL = "http://prometheus:9090/api/v1/status/buildinfo"


def main(experiment: Experiment) -> int:
    """Run `experiment` from the environment; return 0 for a valid run, 1 invalid or interrupted, else LabError's code.

    Its controller.py has a `Controller(parameters, place)`, which is a CellRun.
    """
    controller, environment = experiment.part("controller").Controller, os.environ
    return run_process(
        lambda place: live(controller(experiment.read_parameters(environment), place)),
        lambda run: summary(experiment, [run], NARROW),
    )


def summary(experiment: Experiment, runs: Sequence[dict[str, Any]], width: int = WIDTH) -> str:
    """Return what runs (run.json documents) end with: the experiment's summary of all, or the table of each."""
    if own := getattr(experiment.optional_part("table"), "summary", None):
        return str(own(runs, width))
    return "\n\n".join(f"{run_table(experiment, run)}\n  Kept in results/{run['run_id']}" for run in runs)


def run_table(experiment: Experiment, run: dict[str, Any]) -> str:
    """Return the table of a run (a run.json document) for a terminal of 80 columns."""
    own = experiment.optional_part("table")
    return str(own.table(run)) if own else cells_table(run, experiment.table(run["scenario"]))


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
        heard()
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
    """Return what broker and Prometheus report, and what the run has read already; nothing of who does not answer."""
    # ./lab imports this module on a host without paho.
    from looplab.treatments.broker import prometheus_version, version

    versions = {"prometheus": prometheus_version(os.environ.get("PROMETHEUS_URL") or PROMETHEUS_URL)}
    if run.broker:
        versions["broker"] = version(BROKERS[DEFAULT], *run.broker)
    return {name: one for name, one in {**versions, **run.record.versions}.items() if one}
