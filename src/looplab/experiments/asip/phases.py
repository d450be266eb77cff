"""What the client of a cell is asked to do: tests over a wire, copies of a wave; and what the oscilloscope saw."""

import time
from collections.abc import Mapping

from looplab.errors import MachineError
from looplab.experiments.asip import AsipCell
from looplab.experiments.asip.bisection import Bisection
from looplab.experiments.asip.board import (
    BOARDS,
    BYTE_TO_BOARD_US,
    BYTE_TO_CLIENT_US,
    OUTPUT_PIN,
    WAVE_PIN,
    WIRED_PIN,
    Board,
    write_pin,
)
from looplab.experiments.asip.document import Measured, Step
from looplab.experiments.asip.edges import copied, settle
from looplab.experiments.asip.oscilloscope import Oscilloscope, Scope
from looplab.experiments.asip.parameters import AsipParameters
from looplab.experiments.asip.workers import WorkerClient
from looplab.run.samples import ABSENT, ANSWERED, LATE, WAITING, SampleStore

# Modes, identity, the ready line: bytes of a session that belong to no test.
SESSION_BYTES = 200
# Every client copies it: the bytes of an edge are counted there.
WARMUP_HZ = 10.0


class Phases:
    """Measures cells into rows of `store`; a board that is not `simulated` has no oscilloscope."""

    def __init__(
        self, p: AsipParameters, store: SampleStore, scope: Oscilloscope, addresses: Mapping[str, str], simulated: bool
    ) -> None:
        self._p, self._store, self._scope, self._addresses = p, store, scope, addresses
        self._simulated = simulated
        self._board: Board = BOARDS[p.board]

    def measure(self, rows: range, measured: Measured, worker: WorkerClient) -> None:
        """Take a cell's samples. Raises LabError if client, board or oscilloscope fails."""
        if self._p.throughput:
            self._bisect(rows, measured, worker)
            return
        self._loop_back(rows, measured, worker)
        if self._simulated:
            self._copy(rows, measured, worker)

    def _words(self, cell: AsipCell, pin: int) -> dict[str, object]:
        """Return what a request to the client names: the way to the board, the pins."""
        p = self._p
        _name, port, bit = self._board.pins[pin]
        return {
            "transport": cell.transport,
            "address": self._addresses[cell.transport],
            "qos": p.qos,
            "nodelay": "on" if p.tcp_nodelay else "off",
            "out": OUTPUT_PIN,
            "in": pin,
            "in_port": port,
            "in_bit": bit,
        }

    def _loop_back(self, rows: range, measured: Measured, worker: WorkerClient) -> None:
        """Phase 1: pin 13 is wired to an input; the client's clock."""
        p = self._p
        words = {
            **self._words(measured.cell, WIRED_PIN),
            "tests": p.messages,
            "warmup": p.warmup_tests,
            "interval_us": round(p.interval_ms * 1000),
            "deadline_us": p.deadline_ms * 1000,
        }
        tests = p.messages + p.warmup_tests
        before = self._scope.state() if self._simulated else None
        samples, said = worker.latency(words, tests * p.interval_ms / 1000 + p.deadline_ms / 1000)
        measured.warmup = {
            "tests": p.warmup_tests,
            "first_us": float(said["warmup_first_us"]),
            "last_us": float(said["warmup_last_us"]),
        }
        self._wire(measured, before)
        store, first = self._store, rows.start
        for test, due_ns, sent_ns, received_ns in samples:
            row = first + test
            store["due_ns"][row], store["sent_ns"][row] = due_ns, sent_ns
            store["state"][row] = WAITING
            if received_ns != ABSENT:
                store["received_ns"][row] = received_ns
                in_time = received_ns - sent_ns <= p.deadline_ms * 1_000_000
                store["state"][row] = ANSWERED if in_time else LATE

    def _copy(self, rows: range, measured: Measured, worker: WorkerClient) -> None:
        """Phase 2: the client copies a slow wave; the oscilloscope's clock."""
        p, store = self._p, self._store
        worker.follow(self._words(measured.cell, WAVE_PIN))
        try:
            first = self._scope.state().count
            self._scope.wave(p.edge_hz, 2 * p.messages)
            settle(self._scope, p.messages / p.edge_hz, p.deadline_ms / 1000)
            edges = self._scope.edges(first)
        finally:
            worker.stop()
        number = self._board.number
        measured.edges = [(-1, number(edge.pin), edge.level, edge.cycle) for edge in edges]
        rising = [edge for edge in measured.edges if edge[2] == 1]
        for row, (wave_cycle, copy_cycle) in zip(rows, copied(rising, WAVE_PIN), strict=False):
            store["edge_in_cycle"][row] = wave_cycle
            if copy_cycle is not None:
                store["edge_out_cycle"][row] = copy_cycle

    def _bisect(self, rows: range, measured: Measured, worker: WorkerClient) -> None:
        """Search the highest frequency that the client copies without a missed edge."""
        p = self._p
        worker.follow(self._words(measured.cell, WAVE_PIN))
        try:
            self._step(-1, WARMUP_HZ, measured, worker)
            search = Bisection(p.low_hz, p.high_hz, p.resolution)
            for number, row in enumerate(rows):
                if (frequency_hz := search.next_hz()) is None:
                    break
                step = self._step(number, frequency_hz, measured, worker)
                search.found(frequency_hz, step.tracked)
                measured.steps = [*measured.steps, step]
                self._keep(row, step)
        finally:
            worker.stop()

    def _step(self, number: int, frequency_hz: float, measured: Measured, worker: WorkerClient) -> Step:
        """Have one frequency copied; step -1 warms the client up and is not kept."""
        p = self._p
        before = self._scope.state()
        edges_in = 2 * max(1, round(frequency_hz * p.seconds))
        exact_hz = self._scope.wave(frequency_hz, edges_in)
        settle(self._scope, edges_in / 2 / exact_hz, p.deadline_ms / 1000)
        name = self._board.number
        edges = [(number, name(edge.pin), edge.level, edge.cycle) for edge in self._scope.edges(before.count)]
        pairs = copied(edges, WAVE_PIN)
        seen = sum(pin == WAVE_PIN for _, pin, _, _ in edges)
        out = len(edges) - seen
        if seen != edges_in:
            raise MachineError(f"The oscilloscope saw {seen} of {edges_in} edges of the generator.")
        cycles = [copy - wave for wave, copy in pairs if copy is not None]
        tracked = out == edges_in and len(cycles) == edges_in
        if number >= 0:
            measured.edges = [*measured.edges, *edges]
        elif tracked:
            self._wire_of_wave(measured, before, edges_in)
        latencies_ns = [round(cycle * 62.5) for cycle in cycles] if tracked else []
        return Step(exact_hz, round(edges_in / 2 / exact_hz, 6), edges_in, out, tracked, latencies_ns)

    def _keep(self, row: int, step: Step) -> None:
        store = self._store
        now_ns = time.monotonic_ns()
        store["frequency_uhz"][row] = round(step.frequency_hz * 1e6)
        store["edges_in"][row], store["edges_out"][row] = step.edges_in, step.edges_out
        if step.tracked:
            store["received_ns"][row] = now_ns
        store["state"][row] = ANSWERED if step.tracked else WAITING
        store["due_ns"][row] = now_ns
        # Last: the exporter counts the row from now on.
        store["sent_ns"][row] = now_ns

    def _wire(self, measured: Measured, before: Scope | None) -> None:
        """Note the bytes of a test; what a simulated board counted since `before`, over all of them, must agree."""
        p = self._p
        order = len(write_pin(OUTPUT_PIN, 1))
        back, report = (len(self._board.report(WIRED_PIN, level)) for level in (0, 1))
        self._note_wire(measured, order, report)
        if before is None:
            return
        now, tests = self._scope.state(), p.messages + p.warmup_tests
        more = (
            now.bytes_to_board - before.bytes_to_board - tests * 2 * order,
            now.bytes_to_client - before.bytes_to_client - tests * (report + back),
        )
        if not all(0 <= extra <= SESSION_BYTES for extra in more):
            measured.faults.append(f"{more[0]} bytes to the board and {more[1]} to the client belong to no test")

    def _wire_of_wave(self, measured: Measured, before: Scope, edges: int) -> None:
        """Note the bytes of an edge, and how many waves a second fill the wire."""
        now = self._scope.state()
        up = (now.bytes_to_client - before.bytes_to_client) / edges
        down = (now.bytes_to_board - before.bytes_to_board) / edges
        self._note_wire(measured, down, up)
        # Each edge's report must have left before the next begins, and each order must have arrived.
        measured.wire_hz = round(1e6 / 2 / max(up * BYTE_TO_CLIENT_US, down * BYTE_TO_BOARD_US), 3)

    def _note_wire(self, measured: Measured, to_board: float, to_client: float) -> None:
        measured.wire_bytes = {"to_board": to_board, "to_client": to_client}
        wire_us = to_board * BYTE_TO_BOARD_US + to_client * BYTE_TO_CLIENT_US
        measured.byte_us = wire_us / (to_board + to_client) if to_board + to_client else 0.0
