"""What the exporter takes of all experiments: metrics, topics at the broker, names of processes.

An experiment's `live.py`, if there is one, has `Live`, its kind of LiveCell, or `live_texts(state)`, further lines of a
run without live rows; and perhaps `FAMILIES`, and `BROKER_TOPICS`, which makes lines of what the broker retains.
"""

from collections.abc import Callable

from looplab.metrics.cells import families
from looplab.metrics.text_format import FAMILIES, Families, Texts
from looplab.spec.experiment import Experiments
from looplab.treatments.loads import loads


def all_families(experiments: Experiments) -> Families:
    """Return every family of the exporter, the experiments' first."""
    own = [families(cell) for one in experiments.values() for cell in (one.cell, *one.tables.values())]
    live = [getattr(one.optional_part("live"), "FAMILIES", {}) for one in experiments.values()]
    return {**{name: about for known in (*own, *live) for name, about in known.items()}, **FAMILIES}


def broker_topics(experiments: Experiments) -> dict[str, Callable[[bytes], Texts]]:
    """Return what makes sample lines of a retained payload, by topic."""
    live = [getattr(one.optional_part("live"), "BROKER_TOPICS", {}) for one in experiments.values()]
    return {topic: read for topics in live for topic, read in topics.items()}


def process_names(experiments: Experiments) -> dict[str, tuple[str, ...]]:
    """Return the names of the processes of each part of the lab: the experiments' roles, loads, who watches them."""
    roles = [role for experiment in experiments.values() for role in experiment.roles]
    return {
        **{role.name: role.comms for role in (*roles, *(load.role for load in loads().values()))},
        "treatments": ("lab-treatments",),
        "exporter": ("lab-exporter",),
    }
