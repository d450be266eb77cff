"""What a machine refused, read from the treatments of its runs."""

from collections.abc import Mapping
from typing import Any

from looplab.report.stored import StoredRun

POLICY, PERMISSION = "scheduling policy", "may use real-time priority"


def priority_refused(run: StoredRun) -> bool:
    """Return whether the machine of this run refused real-time priority that was asked for."""
    return any(_is_refusal(treatment) for treatment in run.document["treatments"])


def priority_alone_refused(run: StoredRun) -> bool:
    """Return whether a run is INVALID because of refused real-time priority, and for no other reason."""
    faults = [t for t in run.document["treatments"] if t.get("required", True) and not t["verified"]]
    return bool(faults) and all(map(_is_refusal, faults)) and len(run.document["invalid_because"]) == len(faults)


def _is_refusal(treatment: Mapping[str, Any]) -> bool:
    """A policy has a note only if the kernel refused it; without one, a thread was merely overlooked."""
    what = str(treatment["what"])
    if treatment["verified"]:
        return False
    return what.endswith(PERMISSION) or (what.endswith(POLICY) and bool(treatment.get("note")))
