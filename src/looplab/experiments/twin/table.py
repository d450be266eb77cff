"""A run of twin as a table of 80 columns."""

from typing import Any

from looplab.run.table import invalid, number, whole

_HEAD = (
    f"{'ms':>7} {'brokers':>9} {'mode':>9} {'QoS':>3} {'sent':>6} {'lost':>4} {'queue':>6} {'drain':>6} {'out/s':>7} "
    f"{'delay p99':>9}"
)
# What each limit is called in the table and in the report.
LIMITS = {
    "broker": "the broker's processor",
    "instance": "the instance's processor",
    "database": "the database's processor",
    "fsync": "the commit to disk",
    "inflight": "the window of unconfirmed messages",
    "device": "the device that sends",
    "machine": "the processors of the whole machine",
    "sleep": "the sleep of the instance's event loop",
    "session": "opening a database session",
    "tried": "the highest rate tried",
    "unknown": "not found",
}


def table(run: dict[str, Any]) -> str:
    """Return the table of one run (a run.json document), delays in milliseconds, no line feed at its end."""
    lines = [
        "queue: longest, in messages; drain: s from last sent to last stored;",
        "lost: lost and refused; delay: from sent to stored, in ms",
        "",
        _HEAD,
        *(_line(cell) for cell in run["cells"]),
        *_stops(run["cells"]),
        *_limits([cell for cell in run["cells"] if cell.get("limit_per_s") is not None]),
        "",
    ]
    return whole(run, lines)


def _line(cell: dict[str, Any]) -> str:
    brokers = f"{cell['brokers']} {cell['placement'][:7]}"
    out, delay = cell["rate_out_per_s"], cell["storage_delay_us"]["p99"]
    figures = [
        number(cell["drained_s"], 6, 1),
        number(out, 7, 1 if (out or 0) < 10_000 else 0),
        number(None if delay is None else delay / 1000, 9, 1),
    ]
    counts = f"{cell['interval_ms']:>7.4g} {brokers:>9} {cell['write_mode']:>9} {cell['qos']:>3} {cell['sent']:>6}"
    lost = cell["lost"] + cell["refused"]
    return f"{counts} {lost:>4} {cell['queue_max']:>6} {' '.join(figures)}{invalid(cell)}"


def _stops(cells: list[dict[str, Any]]) -> list[str]:
    """Return how often and for how long its quota stopped each machine, a line each; [] where none was stopped."""
    found: dict[str, tuple[int, float]] = {}
    for cell in cells:
        for host, count in cell.get("throttled", {}).items():
            times, seconds = found.get(host, (0, 0.0))
            found[host] = (times + count, seconds + cell["throttled_s"][host])
    said = [f"  {host}: {times} times, {held:.1f} s altogether" for host, (times, held) in found.items() if times]
    return ["", "Machines that had to wait because they had used up their processor quota:", *said] if said else []


def _limits(found: list[dict[str, Any]]) -> list[str]:
    return ["", "Highest sustained rate, and its limit:", *(_limit(cell) for cell in found)] if found else []


def _limit(cell: dict[str, Any]) -> str:
    brokers = f"{cell['brokers']} broker{'s' if cell['brokers'] != 1 else ''}"
    named = f"{cell['write_mode']}, QoS {cell['qos']}, {brokers}"
    if not cell["limit_per_s"]:
        return f"  {named}: no rate was sustained"
    return f"  {named}: {cell['limit_per_s']:.0f} a second, {LIMITS.get(cell['limited_by'], cell['limited_by'])}"
