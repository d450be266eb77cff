"""What an oscilloscope's edges show: which of a wave were copied, and when all have come."""

import time
from bisect import bisect_right
from collections.abc import Sequence

from looplab.experiments.asip.oscilloscope import Oscilloscope

# (step, pin, level, cycle).
Row = tuple[int, int, int, int]
POLL_S = 0.05
# No edge for this long: what the client had to copy it has copied.
QUIET_S = 0.3


def copied(edges: Sequence[Row], wave_pin: int) -> list[tuple[int, int | None]]:
    """Return (cycle of the wave's edge, cycle of its copy or None) for each edge of the wave.

    Where as many edges came out as went in, and of the same levels, each is the copy of the one before it in the same
    place. Else an edge is a copy if it comes before the wave's next edge of its level.
    """
    wave = [edge for edge in edges if edge[1] == wave_pin]
    out = [edge for edge in edges if edge[1] != wave_pin]
    if [edge[2] for edge in wave] == [edge[2] for edge in out]:
        return [(first[3], last[3]) for first, last in zip(wave, out, strict=True)]
    return [(cycle, _next_copy(wave, out, level, cycle)) for _, _, level, cycle in wave]


def settle(scope: Oscilloscope, wave_s: float, most_s: float) -> None:
    """Wait until the generator has ended and nothing follows; `most_s` after its end at most without an edge."""
    time.sleep(wave_s)
    state, quiet_since = scope.state(), time.monotonic()
    while state.left or time.monotonic() - quiet_since < min(QUIET_S, most_s):
        time.sleep(POLL_S)
        last, state = state, scope.state()
        if state.count != last.count:
            quiet_since = time.monotonic()


def _next_copy(wave: Sequence[Row], out: Sequence[Row], level: int, cycle: int) -> int | None:
    until = next((edge[3] for edge in wave[bisect_right(wave, cycle, key=_cycle) :] if edge[2] == level), None)
    for edge in out[bisect_right(out, cycle, key=_cycle) :]:
        if until is not None and edge[3] >= until:
            return None
        if edge[2] == level:
            return edge[3]
    return None


def _cycle(edge: Row) -> int:
    return edge[3]
