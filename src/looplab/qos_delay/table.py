"""A run of qos-delay as a table of 80 columns."""

from __future__ import annotations

from textwrap import fill
from typing import Any

WIDTH = 80
_HEAD = (
    f"{'delay':>7} {'QoS':>3} {'sent':>6} {'late':>5} {'lost':>5} {'end-to-end':>10} {'L avg':>9} {'L p99':>9} "
    f"{'L/delay':>7} {'pkt/seg':>7}"
)


def table(run: dict[str, Any]) -> str:
    """The table of one run (a run.json document), latencies in milliseconds, ends without a line feed."""
    lines = [
        f"{run['scenario']}, fidelity {run['fidelity']}, run {run['run_id']}",
        "L: publisher to subscriber, in ms; delay: publisher-broker and broker-subscriber",
        "",
        _HEAD,
        *(_line(cell) for cell in run["cells"]),
        "",
    ]
    if run["valid"]:
        lines.append("VALID: every treatment was found as wanted.")
    else:
        lines.append("INVALID:")
        lines += [fill(f"  - {why}", WIDTH, subsequent_indent="    ") for why in run["invalid_because"]]
    return "\n".join(lines)


def _line(cell: dict[str, Any]) -> str:
    pair = f"{cell['delay_pb_ms']:g}-{cell['delay_bs_ms']:g}"
    publisher = ((cell["segments"] or {}).get("publisher") or {}).get("mqtt_packets_per_segment") or {}
    latency = cell["L_us"]
    figures = [
        _number(cell["end_to_end_ms"]["total"], 10, 2),
        _number(_ms(latency["avg"]), 9, 3),
        _number(_ms(latency["p99"]), 9, 3),
        _number(cell["L_over_delay"], 7, 2),
        _number(publisher.get("mean"), 7, 2),
    ]
    counts = f"{pair:>7} {cell['qos']:>3} {cell['sent']:>6} {cell['late']:>5} {cell['lost']:>5}"
    return f"{counts} {' '.join(figures)}{'' if cell['valid'] else ' !'}"


def _ms(microseconds: float | None) -> float | None:
    return None if microseconds is None else microseconds / 1000


def _number(value: float | None, width: int, digits: int) -> str:
    return f"{'-' if value is None else f'{value:.{digits}f}':>{width}}"
