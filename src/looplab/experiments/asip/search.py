"""The search for the highest frequency of a square wave that a client copies without a missed edge."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from looplab.errors import MachineError
from looplab.experiments.asip.board import (
    BYTE_TO_CLIENT_US,
    CYCLE_NS,
    OUTPUT_PIN,
    WAVE_PIN,
    byte_to_board_us,
    write_pin,
)
from looplab.experiments.asip.document import Measured
from looplab.experiments.asip.phases import NO_STEP, Phases, copy_delays_ns
from looplab.experiments.asip.waves import copied
from looplab.experiments.asip.workers import WorkerClient
from looplab.run.accounting import summarise
from looplab.run.samples import ANSWERED, WAITING

# Every client can copy this frequency, at which the bytes of an edge are counted.
WARMUP_HZ = 10.0


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


class FrequencySearch(Phases):
    """Has one wave after another copied: each step of the search is a row of the samples."""

    def measure(self, rows: range, measured: Measured, worker: WorkerClient) -> None:
        p, steps = self._p, measured.more["steps"]

        def tracked(frequency_hz: float) -> bool:
            step = self._step(len(steps), frequency_hz, measured)
            self._keep(rows[len(steps)], step)
            steps.append(step)
            return bool(step["tracked"])

        with self._following(measured, worker):
            self._warm_up(measured)
            bisect(tracked, p.low_hz, p.high_hz, p.resolution, len(rows))
        measured.more |= search_result(steps)

    def _warm_up(self, measured: Measured) -> None:
        """Have a slow wave copied, and compute how many waves a second fill the wire."""
        count = 2 * max(1, round(WARMUP_HZ * self._p.seconds))
        before = self._scope.state()
        _, edges = self._wave(NO_STEP, WARMUP_HZ, count)
        if sum(pin != WAVE_PIN for _, pin, _, _ in edges) != count:
            return
        now = self._scope.state()
        up, down = sum(self._notices(WAVE_PIN)), 2 * len(write_pin(OUTPUT_PIN, 1))
        # The reports of analog pins take this time of the line.
        reports_us = (now.bytes_to_client - before.bytes_to_client - up * count / 2) * BYTE_TO_CLIENT_US
        free = 1 - reports_us / ((now.cycle - before.cycle) * CYCLE_NS / 1000)
        # Each edge's notice must have left before the next begins, and each order must have arrived.
        period_us = max(up * BYTE_TO_CLIENT_US / free, down * byte_to_board_us(self._p.adapter))
        measured.more["wire_hz"] = round(1e6 / period_us, 3)

    def _step(self, number: int, frequency_hz: float, measured: Measured) -> dict[str, Any]:
        """Have one frequency copied; return its entry of `steps` in run.json."""
        edges_in = 2 * max(1, round(frequency_hz * self._p.seconds))
        exact_hz, edges = self._wave(number, frequency_hz, edges_in)
        pairs = copied(edges, WAVE_PIN)
        if len(pairs) != edges_in:
            raise MachineError(f"The oscilloscope saw {len(pairs)} of {edges_in} edges of the generator.")
        measured.edges += edges
        delays_ns = [delay_ns for delay_ns in copy_delays_ns(pairs) if delay_ns is not None]
        edges_out = len(edges) - edges_in
        tracked = edges_out == edges_in == len(delays_ns)
        return {
            "frequency_hz": round(exact_hz, 6),
            "seconds": round(edges_in / 2 / exact_hz, 6),
            "edges_in": edges_in,
            "edges_out": edges_out,
            "tracked": tracked,
            "edge_latency_us": summarise(delays_ns if tracked else []),
        }

    def _keep(self, row: int, step: Mapping[str, Any]) -> None:
        store = self._store
        now_ns = time.monotonic_ns()
        store["frequency_uhz"][row] = round(step["frequency_hz"] * 1e6)
        store["edges_in"][row], store["edges_out"][row] = step["edges_in"], step["edges_out"]
        if step["tracked"]:
            store["received_ns"][row] = now_ns
        store["state"][row] = ANSWERED if step["tracked"] else WAITING
        store["due_ns"][row] = now_ns
        # This comes last, because the exporter counts a row once it was sent.
        store["sent_ns"][row] = now_ns
