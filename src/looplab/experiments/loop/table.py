"""A run as a table of 80 columns."""

from collections.abc import Iterator
from textwrap import fill
from typing import Any

from looplab.experiments.loop import LoopCell
from looplab.experiments.loop.document import robot_free_us
from looplab.experiments.loop.fitted import depends, fitted
from looplab.experiments.loop.losses import CAUSES
from looplab.run import stalls
from looplab.run.table import WIDTH, milliseconds, whole
from looplab.spec.brokers import DEFAULT
from looplab.spec.columns import Figure

MOST_ABSENCES = 10
_CPU = "_cpu_s"
_EXTRAS = (("duplicates", "dup."), ("out_of_order", "out of order"), ("disconnects", "disconn."))
_HEAD = f"{'interval':>9} {'QoS':>3} {'sent':>6} {'answ.':>6} {'lost':>5} {'late':>4} {'err.':>4}"
_LATENCY_HEAD = f"{'':>14} {'min':>9} {'avg':>9} {'p50':>9} {'p95':>9} {'p99':>9} {'max':>9}"
# Beside a figure that depends on a fitted constant.
FITTED = "*"


def table(run: dict[str, Any]) -> str:
    """Return the table of one run (a run.json document), latencies in milliseconds, no line feed at its end."""
    parameters = run.get("parameters", {})
    lines = ["latencies in ms", ""]
    for cell in run["cells"]:
        lines += [_HEAD, *_counts(cell), _LATENCY_HEAD]
        for one in (column for column in LoopCell.latencies() if column.heading):
            mark = FITTED if depends(parameters, one.name) else ""
            lines += [_latencies(one.heading + mark, cell[one.path[0]])] if one.path[0] in cell else []
        lines += _ledger(cell.get("ledger_us", {}))
        lines += [_latencies("R free", free)] if (free := robot_free_us(cell)) else []
        for share in (one for one in LoopCell.figures() if one.heading and not one.derived):
            lines += _share(share, LoopCell(cell))
        lines += _load(cell.get("load", {}))
        lines += stalls.lines(cell)
        lines.append("")
    lines += [fill(text, WIDTH, subsequent_indent="  ") for text in _remarks(run)]
    return whole(run, lines)


def _counts(cell: dict[str, Any]) -> list[str]:
    text = (
        f"{cell['interval_ms']:>6g} ms {cell['qos']:>3} {cell['sent']:>6} {cell['answered']:>6} "
        f"{cell['lost']:>5} {cell['late']:>4} {cell['robot_errors']:>4}"
    )
    extras = [f"{cell[key]} {label}" for key, label in _EXTRAS if cell[key]]
    causes = [f"{n} {cause.replace('_', ' ')}" for cause in CAUSES if (n := cell.get("lost_by", {}).get(cause))]
    lines = [text, *(["   " + ", ".join(extras)] if extras else [])]
    return [*lines, *(["   lost by: " + ", ".join(causes)] if causes else [])]


def _share(column: Figure, cell: LoopCell) -> list[str]:
    share = column.of(cell)
    return [] if share is None else [f"{column.heading:>15} {share:.1%} of {cell.sent} messages"]


def _ledger(parts: dict[str, Any]) -> list[str]:
    """What O is made of: the average of each part, which add up to O's over the messages of which all are known."""
    known = parts and parts["network"]["n"]
    if not known:
        return []
    own, bridge = (
        f"{_avg(parts, f'{end}send_path')} send path + {_avg(parts, f'{end}wake_up')} wake-up"
        for end in ("", "bridge_")
    )
    return [
        f"{'O is made of':>14} {own} + {_avg(parts, 'network')} network and broker",
        f"{'':>14} + {bridge} of the bridge (mean of {known})",
    ]


def _avg(parts: dict[str, Any], name: str) -> str:
    return milliseconds(parts[name]["avg"]).strip()


def _load(load: dict[str, Any]) -> list[str]:
    """How hard the load was: CPU seconds a second, messages a second at the broker (the loop's own included)."""
    figures = [
        f"{key.removesuffix(_CPU)} {load[key] / load['seconds']:.2f} CPU s/s"
        for key in load
        if key.endswith(_CPU) and load["seconds"]
    ]
    if "broker_publish_per_s" in load:
        figures.append(f"{load['broker_publish_per_s']:.0f} messages/s at the broker")
    return [f"{'load':>14} {', '.join(figures)}"] if figures else []


def _remarks(run: dict[str, Any]) -> Iterator[str]:
    """Yield what the figures alone do not show, a sentence each."""
    yield from notices(run)
    if constants := fitted(run.get("parameters", {})):
        yield f"{FITTED} fitted: {' '.join(map(str, constants))}"
    if any(cell.get("response_us") for cell in run["cells"]):
        yield "response: from due to answered; a lost message takes infinitely long (inf)."
    if expired := run.get("expired", 0):
        yield f"{expired} answers came after their messages were counted as lost."
    if waited := sum(cell.get("waited", 0) for cell in run["cells"]):
        known = sum(cell["service_R_us"]["n"] for cell in run["cells"])
        yield f"R free: R of the requests that did not queue at the robot; {waited} of {known + waited} queued."
    yield from (f"What O is made of: {gap}" for gap in run.get("ledger_gaps", []))


def notices(run: dict[str, Any]) -> Iterator[str]:
    """Yield what happened that a reader of the run's figures must know, a sentence each."""
    broker, left_out = (run.get("parameters", {}).get(name) for name in ("broker", "qos_left_out"))
    if broker not in (None, DEFAULT):
        yield f"Broker: {broker} {run['environment'].get('versions', {}).get('broker', '')}".rstrip() + "."
    if left_out:
        yield f"{broker} knows no QoS {', '.join(map(str, left_out))}: those cells are left out."
    yield from _absences(run.get("absences", []))
    if count := run.get("reconnects", 0):
        yield (
            f"The bridge reconnected {'once' if count == 1 else f'{count} times'} without the broker reporting a "
            "disconnect: the broker rejected it (make a new file with ./lab pair), or its network was cut for some "
            "seconds. Requests sent meanwhile are lost."
        )
    if found := run.get("delayed"):
        yield (
            f"{found['n']} answers came late, up to {found['longest_T_us'] / 1000:.0f} ms after their requests, though "
            f"the bridge had each within {found['longest_R_us'] / 1000:.1f} ms: they waited on the way, not at the "
            "robot."
        )


def _absences(found: list[dict[str, Any]]) -> Iterator[str]:
    """Yield one sentence each; of more than MOST_ABSENCES the first ones, and how many more there were."""
    for absence in found[:MOST_ABSENCES]:
        end_ns = absence["to_ns"]
        span = "" if end_ns is None else f" for {(end_ns - absence['from_ns']) / 1e9:.1f} s, as the broker saw it"
        yield f"The bridge was away{span}: {absence['cause']}."
    if len(found) > MOST_ABSENCES:
        yield f"It was away {len(found) - MOST_ABSENCES} more times (run.json has them)."


def _latencies(label: str, figures: dict[str, Any]) -> str:
    """One line; a figure that is null although there are messages is infinite."""
    cells = [figures[key] for key in ("min", "avg", "p50", "p95", "p99", "max")]
    endless = f"{'inf':>9}" if figures.get("n") else milliseconds(None)
    return f"{label:>14} " + " ".join(endless if value is None else milliseconds(value) for value in cells)
