"""A square wave at the board: which of its edges a client copied."""

from bisect import bisect_right
from collections.abc import Sequence

from looplab.experiments.asip.board import CYCLE_NS

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
