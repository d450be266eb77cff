"""One run of asip: has each client measure over each transport, and reads the oscilloscope beside it."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from looplab.errors import EXIT_MACHINE, LabError
from looplab.experiments.asip import EXPERIMENT, NAME, placement
from looplab.experiments.asip.bisection import Bisection
from looplab.experiments.asip.board import (
    BOARDS,
    BYTE_TO_BOARD_US,
    BYTE_TO_CLIENT_US,
    OUTPUT_PIN,
    WAVE_PIN,
    WIRED_PIN,
    Board,
)
from looplab.experiments.asip.document import (
    COLUMNS,
    Measured,
    ReadSizes,
    Step,
    cell_document,
    faults,
    files,
)
from looplab.experiments.asip.edges import copied, settle
from looplab.experiments.asip.oscilloscope import BoardCounts, Oscilloscope, Scope
from looplab.experiments.asip.parameters import AsipParameters, Cell
from looplab.experiments.asip.protocols import PROTOCOLS
from looplab.experiments.asip.treatments import judge
from looplab.experiments.asip.workers import ANSWER_TIMEOUT_S, WorkerClient
from looplab.run.life import Run, wait_for
from looplab.run.record import Place, Record
from looplab.run.samples import ABSENT, ANSWERED, LATE, WAITING
from looplab.treatments import noise
from looplab.treatments.judgement import Treatment, on_off
from looplab.treatments.looks import Look, TreatmentsClient

BOARD = "asip-board:4001"
# Modes, identity, the ready line: bytes of a session that belong to no test.
SESSION_BYTES = 200
# Every client copies it: the bytes of an edge are counted there.
WARMUP_HZ = 10.0


class Controller(Run):
    """The steps of one run."""

    def __init__(self, parameters: AsipParameters, place: Place) -> None:
        self.parameters = p = parameters
        self._measured: list[Measured] = []
        self.record = Record(p, place, COLUMNS, files(p, self._measured), {"experiment": NAME})
        self._board: Board = BOARDS[p.board]
        self._protocol = PROTOCOLS[p.protocol]()
        self._scope = Oscilloscope(os.environ.get("ASIP_BOARD") or BOARD)
        self._addresses = placement.addresses(p)
        self._bridge = placement.Bridge(p, self._addresses["tcp"])
        # A real board has no oscilloscope.
        self._simulated = p.robot == "virtual"
        self._client = TreatmentsClient(EXPERIMENT.roles)
        self._looks: list[Look | None] = []
        self._error = LabError("")

    def measure(self) -> None:
        """Wait for board and clients, then measure cell by cell; a cell that fails is INVALID."""
        p, record = self.parameters, self.record
        if self._simulated:
            self._wait("simulated board", self._scope.answers, self._no_board)
        for language in p.languages:
            self._wait(f"{language} client", partial(self._answers, language), self._no_answer)
        if p.bridged:
            self._wait("bridge on the Pi" if p.robot == "remote" else "bridge", self._bridge_serves, self._no_answer)
        record.say("plan", cells=len(p.cells), messages=p.samples, seconds=round(p.whole_s))
        record.begin()
        self._look()
        for index, cell in enumerate(p.cells):
            self._progress(index, cell)
            self._measured.append(Measured(cell))
            try:
                placement.set_up(p, cell)
                self._measure(index, self._measured[-1])
            except LabError as error:
                self._measured[-1].faults += [error.message, *self._silence(cell)]
            self._measured[-1].faults += placement.faults(p, cell)
            self._look()
            record.append(p.rows(index))
            record.state("running", self.treatments())
        self._progress(len(p.cells), p.cells[-1])

    def treatments(self) -> list[Treatment]:
        return judge(self.parameters, self._looks, self._measured)

    def contents(self) -> dict[str, Any]:
        p, store = self.parameters, self.record.store
        cells = [cell_document(p, store, p.rows(at), entry) for at, entry in enumerate(self._measured)]
        return {"cells": cells, "noise_floor": noise.over(self._looks)}

    def faults(self) -> Sequence[str]:
        """Return why cells are INVALID."""
        return faults(self.parameters, self._measured, "")

    def close(self) -> None:
        """Take every delay away."""
        placement.take_away(self.parameters)

    def _measure(self, index: int, measured: Measured) -> None:
        patience_s = max(ANSWER_TIMEOUT_S, self.parameters.parts_timeout_s)
        with WorkerClient(measured.cell.language, _worker(measured.cell.language), patience_s) as worker:
            measured.runtime = worker.hello()
            if measured.cell.language == "java" and ("JIT" in measured.runtime) != self.parameters.jit:
                measured.faults.append(f"JIT={on_off(self.parameters.jit)} did not take: {measured.runtime}")
            self._ask(measured.cell)
            if self.parameters.throughput:
                self._bisect(index, measured, worker)
            else:
                self._loop_back(index, measured, worker)
                if self._simulated:
                    self._copy(index, measured, worker)
            measured.board, reads = self._ask(measured.cell)
            measured.reads |= reads

    def _ask(self, cell: Cell) -> tuple[BoardCounts | None, dict[str, ReadSizes]]:
        """Return the board's lags since it was last asked, and what board and bridge saw since the port was opened."""
        board = self._scope.counts() if self._simulated else None
        if cell.transport == "serial":
            return board, {}
        counts = self._bridge.counts()
        # A session over MQTT brings messages, no bytes of a client.
        sides = ("board", "client") if cell.transport == "tcp" else ("board",)
        asked = int(counts["read_of"])
        return board, {f"bridge from the {side}": ReadSizes(asked, int(counts[f"from_{side}"])) for side in sides}

    def _silence(self, cell: Cell) -> list[str]:
        """Return that the bridge does not answer, where a cell failed that needs it."""
        missing = self._bridge.missing() if cell.transport != "serial" else None
        return [missing.message] if missing else []

    def _words(self, cell: Cell, pin: int) -> dict[str, object]:
        """Return what a request to the client names: the way to the board, the pins."""
        p = self.parameters
        port, bit = self._protocol.place(self._board, pin)
        return {
            "transport": cell.transport,
            "address": self._addresses[cell.transport],
            "qos": p.qos,
            "nodelay": "on" if p.tcp_nodelay else "off",
            "read": p.read,
            "frames": p.frames,
            "protocol": p.protocol,
            "out": OUTPUT_PIN,
            "in": pin,
            "in_port": port,
            "in_bit": bit,
        }

    def _loop_back(self, index: int, measured: Measured, worker: WorkerClient) -> None:
        """Phase 1: pin 13 is wired to an input; the client's clock."""
        p = self.parameters
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
        self._note_reads(measured, said)
        self._wire(measured, before)
        store, first = self.record.store, p.rows(index).start
        for test, due_ns, sent_ns, received_ns in samples:
            row = first + test
            store["due_ns"][row], store["sent_ns"][row] = due_ns, sent_ns
            store["state"][row] = WAITING
            if received_ns != ABSENT:
                store["received_ns"][row] = received_ns
                in_time = received_ns - sent_ns <= p.deadline_ms * 1_000_000
                store["state"][row] = ANSWERED if in_time else LATE

    def _copy(self, index: int, measured: Measured, worker: WorkerClient) -> None:
        """Phase 2: the client copies a slow wave; the oscilloscope's clock."""
        p, store = self.parameters, self.record.store
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
        for row, (wave_cycle, copy_cycle) in zip(p.rows(index), copied(rising, WAVE_PIN), strict=False):
            store["edge_in_cycle"][row] = wave_cycle
            if copy_cycle is not None:
                store["edge_out_cycle"][row] = copy_cycle

    def _bisect(self, index: int, measured: Measured, worker: WorkerClient) -> None:
        """Search the highest frequency that the client copies without a missed edge."""
        p = self.parameters
        worker.follow(self._words(measured.cell, WAVE_PIN))
        try:
            self._step(-1, WARMUP_HZ, measured, worker)
            search = Bisection(p.low_hz, p.high_hz, p.resolution)
            for number, row in enumerate(p.rows(index)):
                if (frequency_hz := search.next_hz()) is None:
                    break
                step = self._step(number, frequency_hz, measured, worker)
                search.found(frequency_hz, step.tracked)
                measured.steps = [*measured.steps, step]
                self._keep(row, step)
        finally:
            self._note_reads(measured, worker.stop())

    def _step(self, number: int, frequency_hz: float, measured: Measured, worker: WorkerClient) -> Step:
        """Have one frequency copied; step -1 warms the client up and is not kept."""
        p = self.parameters
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
            raise LabError(f"The oscilloscope saw {seen} of {edges_in} edges of the generator.", "", EXIT_MACHINE)
        cycles = [copy - wave for wave, copy in pairs if copy is not None]
        tracked = out == edges_in and len(cycles) == edges_in
        if number >= 0:
            measured.edges = [*measured.edges, *edges]
        elif tracked:
            self._wire_of_wave(measured, before, edges_in)
        latencies_ns = [round(cycle * 62.5) for cycle in cycles] if tracked else []
        return Step(exact_hz, round(edges_in / 2 / exact_hz, 6), edges_in, out, tracked, latencies_ns)

    def _keep(self, row: int, step: Step) -> None:
        store = self.record.store
        now_ns = time.monotonic_ns()
        store["frequency_uhz"][row] = round(step.frequency_hz * 1e6)
        store["edges_in"][row], store["edges_out"][row] = step.edges_in, step.edges_out
        if step.tracked:
            store["received_ns"][row] = now_ns
        store["state"][row] = ANSWERED if step.tracked else WAITING
        store["due_ns"][row] = now_ns
        # Last: the exporter counts the row from now on.
        store["sent_ns"][row] = now_ns

    @staticmethod
    def _note_reads(measured: Measured, said: Mapping[str, str]) -> None:
        # Over MQTT a library reads.
        if measured.cell.transport != "mqtt":
            measured.reads["client"] = ReadSizes(int(said["read_of"]), int(said["largest_read"]))

    def _wire(self, measured: Measured, before: Scope | None) -> None:
        """Note the bytes of a test; what a simulated board counted since `before`, over all of them, must agree."""
        p = self.parameters
        order = len(self._protocol.write(OUTPUT_PIN, 1))
        back, report = (len(self._protocol.report(self._board, WIRED_PIN, level)) for level in (0, 1))
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

    def _wait(self, what: str, ready: Callable[[], bool], fault: Callable[[], LabError]) -> None:
        self.record.say("waiting", what=what)
        wait_for(ready, self.parameters.parts_timeout_s, fault)

    def _answers(self, language: str) -> bool:
        try:
            with WorkerClient(language, _worker(language)) as worker:
                worker.hello()
        except LabError as error:
            self._error = error
            return False
        return True

    def _bridge_serves(self) -> bool:
        missing = self._bridge.missing()
        self._error = missing or self._error
        return missing is None

    def _no_answer(self) -> LabError:
        return self._error

    def _no_board(self) -> LabError:
        return LabError("The simulated board does not answer.", "See `docker compose logs asip-board`.", EXIT_MACHINE)

    def _look(self) -> None:
        self._looks.append(self._client.look({}))

    def _progress(self, index: int, cell: Cell) -> None:
        p = self.parameters
        done = index * p.messages * p.repetitions
        left_s = (len(p.cells) - index) * p.whole_s / len(p.cells)
        answered = sum(state == ANSWERED for state in self.record.store["state"][:done])
        self.record.progress(str(cell), answered, done, left_s)


def _worker(language: str, environment: Mapping[str, str] = os.environ) -> str:
    return environment.get(f"ASIP_{language.upper()}") or f"asip-{language}:5100"
