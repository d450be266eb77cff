"""Square waves at the board: which edges of one a client copied, and which wave is the fastest it copies."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import inf
from typing import Any

from looplab.errors import MachineError
from looplab.experiments.asip.board import CYCLE_NS, WAVE_PIN

# An edge that the oscilloscope saw is (pin, level, cycle).
Row = tuple[int, int, int]


def copy_delays_ns(edges: Sequence[Row]) -> list[int | None]:
    """Return how long each rising edge of the wave took to be copied, None for one that was not.

    Where as many came out as went in, and each after the one in its place, it is the copy of that one. Else an edge is
    a copy if it comes before the wave's next one.
    """
    wave = [cycle for pin, level, cycle in edges if level and pin == WAVE_PIN]
    out = [cycle for pin, level, cycle in edges if level and pin != WAVE_PIN]
    copies: Sequence[int | None] = out
    if len(out) != len(wave) or any(copy < at for at, copy in zip(wave, out, strict=True)):
        copies = [next((at for at in out if first < at < last), None) for first, last in pairwise([*wave, inf])]
    return [None if copy is None else round((copy - at) * CYCLE_NS) for at, copy in zip(wave, copies, strict=True)]


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


def search_result(tried: Sequence[tuple[float, bool]]) -> dict[str, Any]:
    """Return the highest frequency that was tracked, and the lowest that was not, of all that were `tried`."""
    return {
        "tracked_hz": max((hz for hz, tracked in tried if tracked), default=None),
        "untracked_hz": min((hz for hz, tracked in tried if not tracked), default=None),
    }


def edges_out(edges: Sequence[Row], edges_in: int) -> int:
    """Return how many edges the client made. Raises MachineError if the oscilloscope missed one of the wave."""
    seen = sum(pin == WAVE_PIN for pin, _level, _cycle in edges)
    if seen != edges_in:
        raise MachineError(f"The oscilloscope saw {seen} of {edges_in} edges of the generator.")
    return len(edges) - edges_in
