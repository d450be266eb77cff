"""What Prometheus gets of a run as a whole, running or stored: parameters, start, treatments."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from looplab.metrics.distributions import Cell
from looplab.metrics.text_format import line

_INFO = (
    "command",
    "load",
    "intervals_ms",
    "qos",
    "messages",
    "repetitions",
    "deadline_ms",
    "priority_broker",
    "priority_controller",
    "apply_priority",
    "tcp_nodelay",
    "robot_framing",
    "order",
    "pacing",
)


class Damaged(Exception):
    """A stored run that cannot be read; says why."""


def run_texts(
    run_id: str, parameters: Mapping[str, Any], cells: int, *, active: bool, planned: int | None = None
) -> dict[str, str]:
    """Return the sample lines that every run has; `cells` is how many it is to measure.

    `planned` is the number of messages where it does not follow from the parameters.
    """
    labels = {"scenario": str(parameters["scenario"]), "fidelity": str(parameters["fidelity"])}
    info = {**labels, "run_id": run_id, **{name: _plain(parameters.get(name)) for name in _INFO}}
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


def current_text(family: str, begun: Sequence[Cell]) -> str:
    """Return 1 for the last of the cells that have begun, 0 for the others."""
    return "".join(line(f"{family}_cell_current", cell.labels, int(cell is begun[-1])) for cell in begun)


def cell_started_text(family: str, run_id: str, begun: Iterable[Mapping[str, str]]) -> str:
    """Return when the run was started that each of these cells is of; "" if the id does not say it.

    `begun` are the cells' labels. A longer run of before has cells that this one lacks: dashboards leave them out.
    """
    start, name = started(run_id), f"{family}_cell_run_started_timestamp_seconds"
    return "" if start is None else "".join(line(name, labels, start) for labels in begun)


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


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return " ".join(f"{item:g}" for item in value)
    return "" if value is None else str(value)


def started(run_id: str) -> float | None:
    """Return when a run began, in Unix time, from its id; None where that says nothing."""
    try:
        return datetime.strptime(run_id.partition("-")[0], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
