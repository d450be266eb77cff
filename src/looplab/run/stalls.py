"""Who waited in a cell, and why a sender was late: the machine, or the scheduler that gave the processor to others."""

from collections.abc import Iterable, Iterator, Mapping
from textwrap import fill
from typing import Any

from looplab.run.table import WIDTH
from looplab.treatments import noise
from looplab.treatments.looks import Look, cpu_wait_us

# A cell whose p99 of lateness is above this must name the cause.
LATE_US = 20_000
# A cause explains lateness if it is at least this share of it: one stall of the machine of the p99, the run-queue waits
# of a cell of all the time that the sender was held back.
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


def between(before: Look, after: Look, roles: Iterable[str]) -> dict[str, Any]:
    """Return a cell's `cpu_wait_us` of each of `roles` and its `noise_floor`, from the looks before and after it."""
    return {"cpu_wait_us": cpu_wait_us(before, after, roles), "noise_floor": noise.floor(before, after)}


def explained(cell: Mapping[str, Any], stalled: Mapping[str, Any], held_us: float) -> dict[str, Any]:
    """Return `stalled` (of `between`), with `late_because` where the sender of `cell` was late.

    `held_us` is how long it was held back in the cell (`looplab.run.accounting`).
    """
    lateness = cell["send_lateness_us"]
    if not lateness["n"] or lateness["p99"] <= LATE_US:
        return dict(stalled)
    machine_us = float(noise.worst(stalled.get("noise_floor", ())).get("max_us", 0))
    wait_us = float(stalled.get("cpu_wait_us", {}).get("controller", 0))
    if machine_us >= SHARE * lateness["p99"]:
        cause = MACHINE
    else:
        # Waits are a sum over the cell: many short ones must not pass for the cause of a long delay.
        cause = SCHEDULER if wait_us >= SHARE * max(held_us, lateness["p99"]) else UNKNOWN
    return {**stalled, "late_because": cause}


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


def lines(cell: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a cell in a run's table: run-queue waits, the noise floor, why the sender was late."""
    for what, figures in facts(cell):
        yield from fill(f"{what:>14} {figures}", WIDTH, subsequent_indent=" " * 15).splitlines()
    yield from fill(why_late(cell), WIDTH, initial_indent="  ", subsequent_indent="  ").splitlines()
