"""The search for the highest frequency of a square wave that a client copies without a missed edge."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from looplab.errors import MachineError
from looplab.experiments.asip.board import WAVE_PIN
from looplab.experiments.asip.waves import Row, copied, copy_delays_ns
from looplab.run.accounting import summarise


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
