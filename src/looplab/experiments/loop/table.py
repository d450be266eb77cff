"""A run as a table of 80 columns."""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import fill
from typing import Any

from looplab.run.accounting import robot_free_us

WIDTH = 80
MOST_ABSENCES = 10
_HEAD = f"{'interval':>9} {'QoS':>3} {'sent':>6} {'answ.':>6} {'lost':>5} {'late':>4} {'err.':>4}"
_LATENCY_HEAD = f"{'':>14} {'min':>9} {'avg':>9} {'p50':>9} {'p95':>9} {'p99':>9} {'max':>9}"
_ROWS = (
    ("T", "T_us"),
    ("R", "R_us"),
    ("O", "O_us"),
    ("O transport", "transport_O_us"),
    ("send lateness", "send_lateness_us"),
)


def table(run: dict[str, Any]) -> str:
    """The table of one run (a run.json document), latencies in milliseconds, ends without a line feed."""
    lines = [title(run), "latencies in ms", ""]
    for cell in run["cells"]:
        lines += [_HEAD, *_counts(cell), _LATENCY_HEAD]
        lines += [_latencies(label, cell[key]) for label, key in _ROWS]
        lines += _service(cell)
        lines += _load(cell.get("load", {}))
        lines.append("")
    lines += [fill(text, WIDTH, subsequent_indent="  ") for text in _waited(run["cells"])]
    lines += [fill(text, WIDTH, subsequent_indent="  ") for text in _absences(run.get("absences", []))]
    lines += [fill(text, WIDTH, subsequent_indent="  ") for text in _reconnects(run.get("reconnects", 0))]
    lines += [fill(text, WIDTH, subsequent_indent="  ") for text in _delayed(run.get("delayed", {}))]
    return "\n".join([*lines, *verdict(run)])


def title(run: dict[str, Any]) -> str:
    """The first line of any run's table."""
    return f"{run['scenario']}, fidelity {run['fidelity']}, run {run['run_id']}"


def verdict(run: dict[str, Any]) -> list[str]:
    """The last lines of any run's table: valid, or why not; then what was not as wanted and makes no run invalid."""
    beside = [t for t in run.get("treatments", []) if not (t["verified"] or t["required"])]
    if run["valid"]:
        lines = [f"VALID: every treatment {'that is required ' if beside else ''}was found as wanted."]
    else:
        lines = ["INVALID:", *_items(run["invalid_because"])]
    return [*lines, *(["Not required, and not as wanted:", *_items(map(_as_found, beside))] if beside else [])]


def _as_found(treatment: dict[str, Any]) -> str:
    note = f" ({treatment['note']})" if treatment["note"] else ""
    return f"{treatment['what']}: wanted {treatment['wanted']}, found {treatment['found']}{note}"


def _items(texts: Iterable[str]) -> list[str]:
    return [fill(f"  - {text}", WIDTH, subsequent_indent="    ") for text in texts]


def milliseconds(microseconds: float | None) -> str:
    """A latency in its column of nine."""
    return number(None if microseconds is None else microseconds / 1000, 9, 3)


def number(value: float | None, width: int, digits: int) -> str:
    """A figure in its column, a dash where there is none."""
    return f"{'-' if value is None else f'{value:.{digits}f}':>{width}}"


def _counts(cell: dict[str, Any]) -> list[str]:
    text = (
        f"{cell['interval_ms']:>6g} ms {cell['qos']:>3} {cell['sent']:>6} {cell['answered']:>6} "
        f"{cell['lost']:>5} {cell['late']:>4} {cell['robot_errors']:>4}"
    )
    extras = [f"{cell[key]} {label}" for key, label in _EXTRAS if cell[key]]
    return [text, "   " + ", ".join(extras)] if extras else [text]


def _service(cell: dict[str, Any]) -> list[str]:
    """R from when the robot was free, where requests waited for one another (runs of before have none)."""
    free = robot_free_us(cell)
    return [_latencies("R free", free)] if free else []


def _waited(cells: list[dict[str, Any]]) -> list[str]:
    """What that row means, where there is one."""
    waited = sum(cell.get("waited", 0) for cell in cells)
    if not waited:
        return []
    known = sum(cell["service_R_us"]["n"] for cell in cells)
    return [f"R free: R from when the robot was free; {waited} of {known} requests waited for earlier ones."]


def _load(load: dict[str, Any]) -> list[str]:
    """How hard the load was: CPU seconds a second, messages a second at the broker (the loop's own included)."""
    figures = [
        f"{role} {load[key] / load['seconds']:.2f} CPU s/s"
        for role, key in (("stress", "stress_cpu_s"), ("flood", "flood_cpu_s"))
        if key in load and load["seconds"]
    ]
    if "broker_publish_per_s" in load:
        figures.append(f"{load['broker_publish_per_s']:.0f} messages/s at the broker")
    return [f"{'load':>14} {', '.join(figures)}"] if figures else []


def _absences(found: list[dict[str, Any]]) -> list[str]:
    """One sentence each; of more than MOST_ABSENCES the first ones, and how many more there were."""
    texts = []
    for absence in found[:MOST_ABSENCES]:
        end_ns = absence["to_ns"]
        span = "" if end_ns is None else f" for {(end_ns - absence['from_ns']) / 1e9:.1f} s, as the broker saw it"
        texts.append(f"The bridge was away{span}: {absence['cause']}.")
    more = len(found) - MOST_ABSENCES
    return [*texts, f"It was away {more} more times (run.json has them)."] if more > 0 else texts


def _reconnects(count: int) -> list[str]:
    if not count:
        return []
    times = "once" if count == 1 else f"{count} times"
    return [
        f"The bridge connected anew {times}, which the broker did not tell: it was put out (./lab pair --renew), or "
        "its network was cut for some seconds. What was asked meanwhile is lost."
    ]


def _delayed(found: dict[str, float]) -> list[str]:
    if not found:
        return []
    return [
        f"{found['n']} answers came late, up to {found['longest_T_us'] / 1000:.0f} ms after their requests, though the "
        f"bridge had each within {found['longest_R_us'] / 1000:.1f} ms: they waited on the way, not at the robot."
    ]


_EXTRAS = (("duplicates", "dup."), ("out_of_order", "out of order"), ("disconnects", "disconn."))


def _latencies(label: str, figures: dict[str, Any]) -> str:
    cells = [figures[key] for key in ("min", "avg", "p50", "p95", "p99", "max")]
    return f"{label:>14} " + " ".join(map(milliseconds, cells))
