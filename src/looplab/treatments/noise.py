"""The machine's own stalls, of what the treatments service's probes saw (probes.py)."""

from collections.abc import Mapping, Sequence
from typing import Any

# Lateness in units of 1024 ns falls into bins, eight to each of 40 octaves.
PER_OCTAVE, BINS = 8, 320


def bin_of(late_ns: int) -> int:
    """Return the bin of a lateness."""
    units = max(0, late_ns) >> 10
    octave = units.bit_length()
    if octave <= 3:
        return units
    return min(BINS - 1, (octave - 4) * PER_OCTAVE + (units >> octave - 4))


def _edge_us(number: int) -> float:
    """Return the upper end of a bin."""
    if number < PER_OCTAVE:
        return (number + 1) * 1.024
    octave, part = divmod(number, PER_OCTAVE)
    return ((PER_OCTAVE + part + 1) << octave - 1) * 1.024


def floor(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the noise floor between two scans, one entry a processor; [] where a scan has none.

    `count` are stalls (STALL_NS of probes.py), `sum_us` is their sum, `max_us` and `p99_us` the lateness of all
    wake-ups (upper end of a bin of 9 %, `max_us` exact where it was one of the last stalls), `policy` its own.
    """
    first = {entry["processor"]: entry for entry in before.get("noise", ())}
    since_ns = before["clock_ns"]
    return [
        _between(first[entry["processor"]], entry, since_ns)
        for entry in after.get("noise", ())
        if entry["processor"] in first and entry["wakeups"] > first[entry["processor"]]["wakeups"]
    ]


def over(scans: Sequence[Mapping[str, Any] | None]) -> list[dict[str, Any]]:
    """Return the noise floor of a whole run, from the first of its scans that was answered to the last."""
    good = [scan for scan in scans if scan is not None]
    return floor(good[0], good[-1]) if len(good) > 1 else []


def _between(first: Mapping[str, Any], last: Mapping[str, Any], since_ns: int) -> dict[str, Any]:
    counts = {int(number): count - first["bins"].get(number, 0) for number, count in last["bins"].items()}
    latest = [late for due, late in last["latest"] if due >= since_ns]
    # The bins keep what was longest however many stalls came after it.
    most = max(number for number, count in counts.items() if count)
    longest_us = max(latest) / 1000 if latest and bin_of(max(latest)) == most else _edge_us(most)
    return {
        "processor": last["processor"],
        "policy": last["policy"],
        "wakeups": last["wakeups"] - first["wakeups"],
        "count": last["stalls"] - first["stalls"],
        "sum_us": round((last["stalled_ns"] - first["stalled_ns"]) / 1000, 3),
        "max_us": round(longest_us, 3),
        "p99_us": round(_quantile_us(counts, 0.99), 3),
    }


def _quantile_us(counts: Mapping[int, int], share: float) -> float:
    left = share * sum(counts.values())
    for number in sorted(counts):
        left -= counts[number]
        if left <= 0:
            return _edge_us(number)
    raise ValueError("no wake-ups")


def real_time(entry: Mapping[str, Any]) -> bool:
    """Return whether the probe ran above all others: what delays any other may be a task, not the machine."""
    return str(entry.get("policy", "")).startswith("SCHED_FIFO")


def worst(floors: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the entry with the longest stall, {} of none."""
    return max(floors, key=lambda entry: float(entry["max_us"]), default={})
