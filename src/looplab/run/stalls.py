"""Who waited in a cell, and why a sender or its answers were late: the machine, or the scheduler, which gave the
processor to others."""

from collections.abc import Iterable, Iterator, Mapping
from textwrap import fill
from typing import Any

from looplab.run.table import WIDTH
from looplab.treatments import noise
from looplab.treatments.scans import Scan, cpu_wait_us

# A cell whose p99 of lateness is above this must name the cause.
LATE_US = 20_000
# A cause explains lateness if it is at least this share of it: one stall of the machine of the p99, all stalls and the
# run-queue waits of a cell of all the time that the sender, or the answers, were held back.
SHARE = 0.5
MACHINE, SCHEDULER, UNKNOWN = "machine", "scheduler", "unknown"
_SENTENCES = {
    MACHINE: "the machine itself stalled: a probe with real-time priority was late by up to {machine_ms:.0f} ms on "
    "processor {processor}.",
    SCHEDULER: "the kernel's scheduler let it wait: {wait_ms:.0f} ms on the run queue in this cell, while the machine "
    "itself stalled for {machine_ms:.1f} ms at most. `./lab doctor` tries whether this kernel is known for it.",
    UNKNOWN: "neither the machine ({machine_ms:.1f} ms at most) nor the run queue ({wait_ms:.0f} ms in all) explains "
    "it.",
}


def between(before: Scan, after: Scan, roles: Iterable[str]) -> dict[str, Any]:
    """Return a cell's `cpu_wait_us` of each of `roles` and its `noise_floor`, from the scans before and after it."""
    return {"cpu_wait_us": cpu_wait_us(before, after, roles), "noise_floor": noise.floor(before, after)}


def explained(cell: Mapping[str, Any], stalled: Mapping[str, Any], held_us: float) -> dict[str, Any]:
    """Return `stalled` (of `between`), with `late_because` where the sender of `cell` was late.

    `held_us` is how long it was held back in the cell (`looplab.run.accounting`).
    """
    lateness = cell["send_lateness_us"]
    if not lateness["n"] or lateness["p99"] <= LATE_US:
        return dict(stalled)
    # Waits are a sum over the cell: many short ones must not pass for the cause of a long delay.
    wait_us = float(stalled.get("cpu_wait_us", {}).get("controller", 0))
    return {**stalled, "late_because": _cause(stalled, lateness["p99"], held_us, wait_us)}


def answers(cell: Mapping[str, Any], stalled: Mapping[str, Any], held_us: float) -> dict[str, Any]:
    """Return `slow_because` of a cell whose answers came far beyond their median, {} if no cause explains it.

    `held_us` is how long the answers were held back. A link may make them slow as well, so no cause is no fault.
    """
    times = cell["T_us"]
    late_us = (times["p99"] or 0) - (times["p50"] or 0)
    if late_us <= LATE_US:
        return {}
    cause = _cause(stalled, late_us, held_us, max(stalled.get("cpu_wait_us", {}).values(), default=0.0))
    return {} if cause == UNKNOWN else {"slow_because": cause}


def _cause(stalled: Mapping[str, Any], p99_us: float, held_us: float, wait_us: float) -> str:
    least_us = SHARE * max(held_us, p99_us)
    machine = noise.worst(stalled.get("noise_floor", ()))
    longest_us = float(machine.get("max_us", 0))
    stalls_us = float(machine.get("sum_us", longest_us))
    if noise.real_time(machine) and longest_us >= SHARE * p99_us and stalls_us >= least_us:
        return MACHINE
    return SCHEDULER if wait_us >= least_us else UNKNOWN


def facts(cell: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (what, figures) of a cell of run.json: run-queue waits, the noise floor."""
    if waits := cell.get("cpu_wait_us"):
        shown = ", ".join(f"{role} {us / 1000:.1f}" for role, us in waits.items())
        yield "run queue", f"{shown} ms"
    if floor := cell.get("noise_floor"):
        entry = noise.worst(floor)
        yield (
            "noise floor",
            f"p99 {entry['p99_us'] / 1000:.3f}, max {entry['max_us'] / 1000:.3f} ms on processor {entry['processor']}",
        )


def why_late(cell: Mapping[str, Any]) -> str:
    """Return why the sender of a cell was late, as a sentence; "" if it was not."""
    if not (cause := cell.get("late_because")):
        return ""
    worst = noise.worst(cell.get("noise_floor", ()))
    why = _SENTENCES[cause].format(
        machine_ms=worst.get("max_us", 0) / 1000,
        processor=worst.get("processor", "?"),
        wait_ms=cell.get("cpu_wait_us", {}).get("controller", 0) / 1000,
    )
    return f"The sender was late: {why}"


def why_slow(cell: Mapping[str, Any]) -> str:
    """Return why the answers of a cell were slow though most were not, as a sentence; "" if nothing explains it."""
    if not (cause := cell.get("slow_because")):
        return ""
    waits = cell.get("cpu_wait_us", {})
    most = max(waits, key=lambda role: float(waits[role]), default="")
    how = {
        MACHINE: f"the machine itself stalled for {noise.worst(cell['noise_floor'])['max_us'] / 1000:.0f} ms"
        if cell.get("noise_floor")
        else "",
        SCHEDULER: f"the {most} waited {waits.get(most, 0) / 1000:.0f} ms on the run queue in this cell",
    }[cause]
    return f"One answer in a hundred was slow: {how}."


def lines(cell: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a cell in a run's table: run-queue waits, the noise floor, why sender or answers were late."""
    for what, figures in facts(cell):
        yield from fill(f"{what:>14} {figures}", WIDTH, subsequent_indent=" " * 15).splitlines()
    for why in (why_late(cell), why_slow(cell)):
        yield from fill(why, WIDTH, initial_indent="  ", subsequent_indent="  ").splitlines()
