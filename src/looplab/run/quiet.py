"""Whether strangers left the machine to a run: the processor time of all that is no part of the lab."""

from collections.abc import Iterable, Mapping
from typing import Any

from looplab.treatments.scans import Scan

# Of all processors' time; more than this and a run is VALID, not quiet.
MOST_STRANGERS = 0.10
KEY = "strangers_cpu_s"


def strangers_cpu_s(before: Scan, after: Scan) -> float | None:
    """Return the processor time between two scans that no process of the lab used; None if a scan does not say.

    Interrupts count as nobody's. What a process used that ended meanwhile counts as a stranger's.
    """
    if None in (before.get("own_cpu_s"), after.get("own_cpu_s")):
        return None
    span_s = (int(after["clock_ns"]) - int(before["clock_ns"])) / 1e9
    unused = ("idle_s", "steal_s", "interrupts_s")
    unused_s = _sum(after, unused) - _sum(before, unused)
    own_s = float(after["own_cpu_s"]) - float(before["own_cpu_s"])
    return round(max(0.0, span_s * len(after["processors"]) - unused_s - own_s), 2)


def _sum(scan: Scan, names: Iterable[str]) -> float:
    return sum(float(times.get(name, 0.0)) for times in scan["processors"].values() for name in names)


def why_not(run: Mapping[str, Any]) -> str:
    """Return why a run (a run.json document) was not quiet, "" if it was or if nobody counted."""
    environment = run.get("environment", {})
    cores = int(environment.get("cores") or 1)
    shares = [
        cell[KEY] / (cores * cell["load"]["seconds"])
        for cell in run.get("cells", ())
        if cell.get(KEY) is not None and cell.get("load", {}).get("seconds")
    ]
    most = max(shares, default=0.0)
    if most > MOST_STRANGERS:
        return f"programs beside the lab used {most:.0%} of the processors in a cell ({MOST_STRANGERS:.0%} at most)"
    before = float(environment.get("busy_before") or 0.0)
    if before > MOST_STRANGERS:
        return f"programs beside the lab used {before:.0%} of the processors before it ({MOST_STRANGERS:.0%} at most)"
    return ""


def counts(run: Mapping[str, Any]) -> bool:
    """Return whether a run may enter verdicts: it was quiet, or somebody asked for a busy machine (`--busy`)."""
    return bool(run.get("quiet", True) or run.get("environment", {}).get("busy_wanted"))
