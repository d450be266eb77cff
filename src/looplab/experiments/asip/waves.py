"""Square waves at the board: which edges of one a client copied, and which wave is the fastest it copies."""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from looplab.errors import MachineError
from looplab.experiments.asip.board import CYCLE_NS, WAVE_PIN
from looplab.run.accounting import summarise

# An edge that the oscilloscope saw is (pin, level, cycle).
Row = tuple[int, int, int]


def copied(edges: Sequence[Row], wave_pin: int) -> list[tuple[int, int | None]]:
    """Return (cycle of the wave's edge, cycle of its copy or None) for each edge of the wave.

    Where as many edges came out as went in, and of the same levels, each is the copy of the one before it in the same
    place. Else an edge is a copy if it comes before the wave's next edge of its level.
    """
    wave = [(level, cycle) for pin, level, cycle in edges if pin == wave_pin]
    out = [(level, cycle) for pin, level, cycle in edges if pin != wave_pin]
    if [level for level, _ in wave] == [level for level, _ in out]:
        return [(first, last) for (_, first), (_, last) in zip(wave, out, strict=True)]
    pairs: list[tuple[int, int | None]] = []
    for level, cycle in wave:
        copy, again = (_next([at for one, at in side if one == level], cycle) for side in (out, wave))
        pairs.append((cycle, copy if copy is not None and (again is None or copy < again) else None))
    return pairs


def _next(cycles: Sequence[int], after: int) -> int | None:
    at = bisect_right(cycles, after)
    return cycles[at] if at < len(cycles) else None


def copy_delays_ns(pairs: Sequence[tuple[int, int | None]]) -> list[int | None]:
    """Return how long each edge of the wave took to be copied, None for one that was not."""
    return [None if copy is None else round((copy - wave) * CYCLE_NS) for wave, copy in pairs]


def bisect(tracked: Callable[[float], bool], low_hz: float, high_hz: float, resolution: float, steps: int) -> None:
    """Ask `tracked` of frequencies, at most `steps`, until the limit lies between two that are close.

    The lowest comes first: if it is not copied, there is nothing to search. The highest is taken for too high until the
    search has come close to it.
    """
    if not tracked(low_hz):
        return
    reached = True
    for _ in range(steps - 1):
        if high_hz - low_hz <= resolution * high_hz:
            if reached:
                tracked(high_hz)
            return
        middle_hz = (low_hz + high_hz) / 2
        if tracked(middle_hz):
            low_hz = middle_hz
        else:
            high_hz, reached = middle_hz, False


def search_result(steps: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what the steps of a search found: the highest frequency tracked, and the lowest that was not."""
    tried = [(step["frequency_hz"], step["tracked"]) for step in steps]
    return {
        "tracked_hz": max((hz for hz, tracked in tried if tracked), default=None),
        "untracked_hz": min((hz for hz, tracked in tried if not tracked), default=None),
    }


def search_step(frequency_hz: float, edges: Sequence[Row], edges_in: int) -> dict[str, Any]:
    """Return an entry of `steps` in run.json, by the edges that the oscilloscope saw. Raises MachineError."""
    pairs = copied(edges, WAVE_PIN)
    if len(pairs) != edges_in:
        raise MachineError(f"The oscilloscope saw {len(pairs)} of {edges_in} edges of the generator.")
    delays_ns = [delay_ns for delay_ns in copy_delays_ns(pairs) if delay_ns is not None]
    edges_out = len(edges) - edges_in
    tracked = edges_out == edges_in == len(delays_ns)
    return {
        "frequency_hz": round(frequency_hz, 6),
        "seconds": round(edges_in / 2 / frequency_hz, 6),
        "edges_in": edges_in,
        "edges_out": edges_out,
        "tracked": tracked,
        "edge_latency_us": summarise(delays_ns if tracked else []),
    }
