"""What Prometheus gets of a run as a whole, running or stored: parameters, start, treatments."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from looplab.metrics.text_format import line


class Damaged(Exception):
    """A stored run that cannot be read; says why."""


def run_texts(
    run_id: str, parameters: Mapping[str, Any], cells: int, *, active: bool, planned: int | None = None
) -> dict[str, str]:
    """Return the sample lines that every run has; `cells` is how many it is to measure.

    `planned` is the number of messages where it does not follow from the parameters.
    """
    labels = {"scenario": str(parameters["scenario"]), "fidelity": str(parameters["fidelity"])}
    info = {
        **{name: _plain(value) for name, value in parameters.items() if _is_plain(value)},
        **labels,
        "run_id": run_id,
    }
    if planned is None:
        planned = cells * int(parameters["messages"]) * int(parameters.get("repetitions", 1))
    texts = {
        "loop_run_active": line("loop_run_active", labels, int(active)),
        "loop_run_info": line("loop_run_info", info, 1),
        "loop_run_messages_planned": line("loop_run_messages_planned", labels, planned),
    }
    start = started(run_id)
    if start is not None:
        texts["loop_run_started_timestamp_seconds"] = line("loop_run_started_timestamp_seconds", labels, start)
    return texts


def treatment_text(scenario: str, fidelity: str, treatments: Iterable[Mapping[str, Any]]) -> str:
    """Return the lines of loop_treatment_verified."""
    return "".join(
        line(
            "loop_treatment_verified",
            {
                "scenario": scenario,
                "fidelity": fidelity,
                "what": str(treatment["what"]),
                "wanted": str(treatment["wanted"]),
                "found": str(treatment["found"]),
                "required": _plain(treatment.get("required", True)),
            },
            int(bool(treatment["verified"])),
        )
        for treatment in treatments
    )


def _is_plain(value: object) -> bool:
    return not isinstance(value, dict) and not (
        isinstance(value, list) and any(isinstance(v, list | dict) for v in value)
    )


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return " ".join(f"{item:g}" if isinstance(item, float) else str(item) for item in value)
    return "" if value is None else str(value)


def started(run_id: str) -> float | None:
    """Return when a run began, in Unix time, from its id; None where that says nothing."""
    try:
        return datetime.strptime(run_id.partition("-")[0], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
