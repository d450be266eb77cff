"""A run of qos-delay as a table of 80 columns."""

from typing import Any

from looplab.run.table import invalid, milliseconds, number, whole

_HEAD = (
    f"{'delay':>7} {'QoS':>3} {'sent':>6} {'late':>5} {'lost':>5} {'end-to-end':>10} {'L avg':>9} {'L p99':>9} "
    f"{'L/delay':>7} {'pkt/seg':>7}"
)


def table(run: dict[str, Any]) -> str:
    """Return the table of one run (a run.json document), latencies in milliseconds, no line feed at its end."""
    lines = [
        "L: publisher to subscriber, in ms; delay: publisher-broker and broker-subscriber",
        "",
        _HEAD,
        *(_line(cell) for cell in run["cells"]),
        "",
    ]
    return whole(run, lines)


def _line(cell: dict[str, Any]) -> str:
    pair = f"{cell['delay_pb_ms']:g}-{cell['delay_bs_ms']:g}"
    publisher = ((cell["segments"] or {}).get("publisher") or {}).get("mqtt_packets_per_segment") or {}
    latency = cell["L_us"]
    figures = [
        number(cell["end_to_end_ms"]["total"], 10, 2),
        milliseconds(latency["avg"]),
        milliseconds(latency["p99"]),
        number(cell["L_over_delay"], 7, 2),
        number(publisher.get("mean"), 7, 2),
    ]
    counts = f"{pair:>7} {cell['qos']:>3} {cell['sent']:>6} {cell['late']:>5} {cell['lost']:>5}"
    return f"{counts} {' '.join(figures)}{invalid(cell)}"
