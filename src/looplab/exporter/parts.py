"""What the exporter asks of an experiment: its metrics.py."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from looplab.metrics.distributions import Cell
from looplab.metrics.text_format import FAMILIES, Families, Texts
from looplab.run.experiment import Experiment, Experiments
from looplab.treatments.loads import loads


class Metrics(Protocol):
    """The metrics.py of an experiment.

    It may have `COLUMNS`, those of the live rows that `Cell.add_latency` takes after T, and `BROKER_TOPICS`, which
    makes sample lines of what is retained at the broker. An experiment without live rows has `live_texts` in place of
    `cells` and `cell_texts`: see `StatedRun`.
    """

    FAMILIES: Families

    def cells(self, parameters: Mapping[str, Any]) -> Sequence[Cell]:
        """Return the cells of a run in the order in which they are measured."""

    def cell_texts(self, run_id: str, found: Sequence[Cell]) -> dict[str, str]:
        """Return the sample lines of a running run's cells."""

    def stored_texts(self, folder: Path, run: Mapping[str, Any]) -> dict[str, str]:
        """Return the sample lines of a stored run's cells.

        Raises Damaged, or KeyError, TypeError, ValueError or AttributeError if run.json is not what the lab writes.
        """


def metrics(experiment: Experiment) -> Metrics:
    found: Metrics = experiment.part("metrics")
    return found


def all_families(experiments: Experiments) -> Families:
    """Return every family of the exporter, the experiments' first."""
    own = {name: about for found in experiments.values() for name, about in metrics(found).FAMILIES.items()}
    return {**own, **FAMILIES}


def broker_topics(experiments: Experiments) -> dict[str, Callable[[bytes], Texts]]:
    """Return what makes sample lines of a retained payload, by topic."""
    held = [getattr(metrics(found), "BROKER_TOPICS", {}) for found in experiments.values()]
    return {topic: read for topics in held for topic, read in topics.items()}


def process_names(experiments: Experiments) -> dict[str, tuple[str, ...]]:
    """Return the names of the processes of each part of the lab: the experiments' roles, loads, who watches them."""
    roles = [role for experiment in experiments.values() for role in experiment.roles]
    return {
        **{role.name: role.comms for role in (*roles, *(load.role for load in loads().values()))},
        "treatments": ("lab-treatments",),
        "exporter": ("lab-exporter",),
    }
