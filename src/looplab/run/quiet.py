"""Was the machine quiet? The processor time of strangers, the machine's own stalls, and the delays that they explain.

Probes of the treatments service see stalls (looplab.treatments.probes): the noise floor. A cell of run.json keeps what
its two scans show, and `late_because` and `slow_because`: the machine, or the scheduler, which let others run.
What nobody counted is not quiet.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Any

from looplab.system.histogram import Histogram
from looplab.treatments.loads.load import seconds
from looplab.treatments.scans import Scan, cpu_wait_us

# Beyond these a run is VALID, not quiet. Strangers: processors that they use, however many there are. Steal: a share of
# all processors' time. Noise: p99 of the probes, as a share of the median of O.
MOST_STRANGERS, MOST_STEAL, MOST_NOISE, MOST_SUSPENDED_S = 0.20, 0.01, 0.5, 1.0
# A run waits so long, at most, for programs beside the lab: Prometheus reads and packs its log as it starts.
SETTLE_S, LOOK_S = 10.0, 0.5
# A cell whose p99 of lateness is above this must name the cause.
LATE_US = 20_000
# A cause explains lateness if it is at least this share of it: one stall of the machine of the p99, all stalls and the
# run-queue waits of a cell of all the time that the sender, or the answers, were held back.
SHARE = 0.5
MACHINE, SCHEDULER, UNKNOWN = "machine", "scheduler", "unknown"
# The figures are in the cell: `noise_floor`, `cpu_wait_us`.
_WHY = {
    MACHINE: "the machine itself stalled (noise floor)",
    SCHEDULER: "the kernel's scheduler let it wait (run queue). `./lab doctor` knows such kernels",
    UNKNOWN: "neither the machine nor the run queue explains it",
}


def between(before: Scan, after: Scan, roles: Iterable[str]) -> dict[str, Any]:
    """Return what a cell holds by the scans before and after it: run-queue waits, noise floor."""
    return {"cpu_wait_us": cpu_wait_us(before, after, roles), "noise_floor": noise_floor(before, after)}


def interference(before: Scan | None, after: Scan | None) -> dict[str, float | None]:
    """Return what others took between two scans: `strangers_cpu_s`, `steal_s` of `seconds`; None if nobody counted.

    Of several hosts it is the one that was disturbed most.
    """
    if before is None or after is None or before is after:
        return dict.fromkeys(("seconds", "strangers_cpu_s", "steal_s"))
    of_hosts = [(before["hosts"][host], own) for host, own in after.get("hosts", {}).items()] or [(before, after)]
    counted_s = [one for pair in of_hosts if (one := strangers_cpu_s(*pair)) is not None]
    return {
        "seconds": round(seconds(before, after), 3),
        "strangers_cpu_s": max(counted_s) if len(counted_s) == len(of_hosts) else None,
        "steal_s": max(_stolen_s(*pair) for pair in of_hosts),
    }


def _stolen_s(before: Scan, after: Scan) -> float:
    first, last = (sum(float(one["steal_s"]) for one in scan["processors"].values()) for scan in (before, after))
    return round(max(0.0, last - first), 2)


def strangers_cpu_s(before: Scan, after: Scan) -> float | None:
    """Return the processor time between two scans that no process of the lab used; None if a scan does not say.

    Interrupts count as nobody's. What a process used that ended meanwhile counts as a stranger's.
    """
    if None in (before.get("own_cpu_s"), after.get("own_cpu_s")):
        return None
    unused_s = _unused_s(after) - _unused_s(before)
    own_s = float(after["own_cpu_s"]) - float(before["own_cpu_s"])
    return round(max(0.0, seconds(before, after) * len(after["processors"]) - unused_s - own_s), 2)


def disturbed(before: Scan | None, after: Scan | None) -> bool:
    """Return whether strangers used more of the processors between two scans than a quiet run allows, if both count."""
    if before is None or after is None:
        return False
    used_s = strangers_cpu_s(before, after)
    return used_s is not None and used_s > MOST_STRANGERS * seconds(before, after)


def _unused_s(scan: Scan) -> float:
    unused = ("idle_s", "steal_s", "interrupts_s")
    return sum(float(times.get(name, 0.0)) for times in scan["processors"].values() for name in unused)


def noise_floor(before: Scan, after: Scan) -> list[dict[str, Any]]:
    """Return the machine's stalls between two scans, one entry a processor; [] where a scan has none.

    `count` are stalls (STALL_NS of the probes), `sum_us` is their sum, `max_us` and `p99_us` the lateness of all
    wake-ups: the upper end of a bin of 9 %.
    """
    first = {entry["processor"]: entry for entry in before.get("noise", ())}
    return [
        _stalls(first[entry["processor"]], entry)
        for entry in after.get("noise", ())
        if entry["processor"] in first and entry["wakeups"] > first[entry["processor"]]["wakeups"]
    ]


def noise_of_run(scans: Sequence[Scan | None]) -> list[dict[str, Any]]:
    """Return the noise floor of a whole run, from the first of its scans that was answered to the last."""
    good = [scan for scan in scans if scan is not None]
    return noise_floor(good[0], good[-1]) if len(good) > 1 else []


def _stalls(first: Mapping[str, Any], last: Mapping[str, Any]) -> dict[str, Any]:
    # Only differences above 0 stay.
    counts = Counter(last["bins"]) - Counter(first["bins"])
    late = Histogram({int(edge_ns): count for edge_ns, count in counts.items()}, max_ns=max(map(int, counts)))
    return {
        "processor": last["processor"],
        "policy": last["policy"],
        "wakeups": last["wakeups"] - first["wakeups"],
        "count": last["stalls"] - first["stalls"],
        "sum_us": round((last["stalled_ns"] - first["stalled_ns"]) / 1000, 3),
        "max_us": round(late.max_ns / 1000, 3),
        "p99_us": round(late.quantiles_ns([0.99])[0] / 1000, 3),
    }


def worst(floors: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the entry of a noise floor with the longest stall, {} of none."""
    return max(floors, key=lambda entry: float(entry["max_us"]), default={})


def reasons(run: Mapping[str, Any]) -> list[str]:
    """Return why a run (a run.json document) was not quiet, [] if it was; of each kind the worst cell."""
    return [*_by_others(run), *_by_noise(run["cells"]), *_by_machine(run["environment"])]


def _by_others(run: Mapping[str, Any]) -> Iterator[str]:
    cores = int(run["environment"]["cores"])
    shares = [
        (one["strangers_cpu_s"] / one["seconds"], one["steal_s"] / (one["seconds"] * cores), f"in {one['cell']}")
        for one in run["interference"]
        if None not in one.values() and one["seconds"]
    ]
    if len(shares) < len(run["interference"]):
        yield "nobody counted what other programs used"
    used, where = max(((strangers, cell) for strangers, _, cell in shares), default=(0.0, ""))
    if used > MOST_STRANGERS:
        yield f"programs beside the lab used {used:.0%} of a processor {where} ({MOST_STRANGERS:.0%} at most)"
    stolen, where = max(((share, cell) for _, share, cell in shares), default=(0.0, ""))
    if stolen > MOST_STEAL:
        yield f"the hypervisor gave others {stolen:.1%} of the processors' time {where} ({MOST_STEAL:.0%} at most)"


def _by_noise(cells: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    worst_share = 0.0
    for cell in cells:
        median_us = (cell.get("O_us") or {}).get("p50") or inf
        p99_us = max((one["p99_us"] for one in cell.get("noise_floor", ()) if _alone(one)), default=0.0)
        worst_share = max(worst_share, p99_us / median_us)
    if worst_share > MOST_NOISE:
        yield f"p99 of the noise floor is {worst_share:.0%} of the median of O ({MOST_NOISE:.0%} at most)"


def _by_machine(environment: Mapping[str, Any]) -> Iterator[str]:
    if (slept_s := environment["suspended_s"]) > MOST_SUSPENDED_S:
        yield f"the machine was suspended for {slept_s:.1f} s"
    for name, after in environment["changed"].items():
        yield f"{name} changed from {environment[name]} to {after}"


def why_not(run: Mapping[str, Any]) -> str:
    """Return why a stored run was not quiet, by the rules of its day; "" if it was."""
    if run.get("quiet", True):
        return ""
    return "; ".join(run.get("not_quiet_because", ())) or "programs beside the lab used too much of the processors"


def counts(run: Mapping[str, Any]) -> bool:
    """Return whether a run may enter verdicts: it was quiet, or somebody asked for a busy machine (`--busy`)."""
    return bool(run.get("quiet", True) or run.get("environment", {}).get("busy_wanted"))


def causes(cell: Mapping[str, Any], held_us: float, answers_held_us: float) -> dict[str, str]:
    """Return why a cell was slow: `late_because` of its sender, `slow_because` of its answers; {} if neither was.

    Answers are slow if some came far beyond their median. A link may make them slow as well, so no cause is no fault.
    `held_us` is how long the sender was held back in the cell, `answers_held_us` how long its answers were
    (`looplab.run.accounting`).
    """
    found, lateness, times = {}, cell["send_lateness_us"], cell["T_us"]
    waits = cell.get("cpu_wait_us", {})
    if lateness["n"] and lateness["p99"] > LATE_US:
        # Waits are a sum over the cell: many short ones must not pass for the cause of a long delay.
        found["late_because"] = _cause(cell, lateness["p99"], held_us, float(waits.get("controller", 0)))
    slow_us = (times["p99"] or 0) - (times["p50"] or 0)
    if slow_us > LATE_US:
        found["slow_because"] = _cause(cell, slow_us, answers_held_us, max(waits.values(), default=0.0))
    return {name: cause for name, cause in found.items() if (name, cause) != ("slow_because", UNKNOWN)}


def _cause(cell: Mapping[str, Any], p99_us: float, held_us: float, wait_us: float) -> str:
    least_us = SHARE * max(held_us, p99_us)
    machine = worst(cell.get("noise_floor", ()))
    longest_us = float(machine.get("max_us", 0))
    stalls_us = float(machine.get("sum_us", longest_us))
    if _alone(machine) and longest_us >= SHARE * p99_us and stalls_us >= least_us:
        return MACHINE
    return SCHEDULER if wait_us >= least_us else UNKNOWN


def _alone(floor: Mapping[str, Any]) -> bool:
    """Return whether no ordinary task can delay a probe: what does is the machine itself."""
    return str(floor.get("policy", "")).startswith("SCHED_FIFO")


def facts(cell: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (what, figures) of a cell of run.json: run-queue waits, the noise floor."""
    if waits := cell.get("cpu_wait_us"):
        shown = ", ".join(f"{role} {us / 1000:.3f}" for role, us in waits.items())
        yield "run queue", f"{shown} ms"
    if floor := cell.get("noise_floor"):
        entry = worst(floor)
        yield (
            "noise floor",
            f"p99 {entry['p99_us'] / 1000:.3f}, max {entry['max_us'] / 1000:.3f} ms on processor {entry['processor']}",
        )


def why_slow(cell: Mapping[str, Any]) -> Iterator[str]:
    """Yield why the sender of a cell was late, and why its answers were slow though most were not, as sentences."""
    if cause := cell.get("late_because"):
        yield f"The sender was late: {_WHY[cause]}."
    if cause := cell.get("slow_because"):
        yield f"One answer in a hundred was slow: {_WHY[cause]}."
