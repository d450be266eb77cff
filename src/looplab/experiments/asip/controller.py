"""One run of asip: has each client measure over each transport, and reads the oscilloscope beside it.

The measurements are tests over a loop of wire, copies of a wave, the search for the fastest wave.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial

from looplab.errors import LabError
from looplab.experiments.asip import EXPERIMENT, AsipCell, placement
from looplab.experiments.asip.board import (
    BOARDS,
    BYTE_TO_CLIENT_US,
    CYCLE_NS,
    OUTPUT_PIN,
    WAVE_PIN,
    WIRED_PIN,
    byte_to_board_us,
    write_pin,
)
from looplab.experiments.asip.document import COLUMNS, copies, planned
from looplab.experiments.asip.oscilloscope import BoardCounts, Oscilloscope, Scope
from looplab.experiments.asip.parameters import AsipParameters
from looplab.experiments.asip.treatments import judge, judge_board, judge_reports
from looplab.experiments.asip.waves import Row, bisect, copy_delays_ns, edges_out, search_result
from looplab.experiments.asip.workers import ANSWER_TIMEOUT_S, WorkerClient
from looplab.run.cells import CellResult, CellRun
from looplab.run.record import Place
from looplab.run.samples import ABSENT, ANSWERED, LATE, WAITING
from looplab.treatments.judgement import Treatment, on_off

# Every client can copy this frequency, at which the bytes of an edge are counted.
WARMUP_HZ = 10.0


class AsipController(CellRun[AsipParameters, AsipCell]):
    """The steps of one run; a cell that fails is INVALID, and the run goes on."""

    experiment, columns = EXPERIMENT, COLUMNS

    def __init__(self, parameters: AsipParameters, place: Place) -> None:
        if "mqtt" in parameters.transports:
            self.broker = ("broker", 1883)
        super().__init__(parameters, place)
        self._at = placement.addresses(parameters)
        self._scope = Oscilloscope(self._at["board"])
        self._board = BOARDS[parameters.board]
        self._boards: list[BoardCounts] = []

    def prepare(self) -> None:
        """Wait for board, clients and bridge."""
        p = self.parameters
        if p.simulated:
            self.wait_for_part("simulated board", self._scope.state)
        for language in p.languages:
            self.wait_for_part(f"{language} client", partial(self._check_client, language))
        if any(cell.transport != "serial" for cell in p.cells):
            self.wait_for_part("bridge", partial(placement.check_bridge, p, self._at["tcp"]))
        self.scan()

    def measure_cell(self, index: int, cell: AsipCell) -> CellResult[AsipCell]:
        self.progress(index, cell, 0)
        measured = planned(self.parameters, cell)
        try:
            self._measure(index, measured)
        except LabError as error:
            measured.faults.append(error.message)
        return measured

    def judge(self) -> list[Treatment]:
        p = self.parameters
        return [*self.by_scans(partial(judge, p)), judge_reports(p, self.measured), *judge_board(p, self._boards)]

    def _measure(self, index: int, measured: CellResult[AsipCell]) -> None:
        p, language = self.parameters, measured.cell.language
        with closing(self._client(language)) as worker:
            runtime = measured.more["runtime"] = worker.runtime()
            if language == "java" and ("JIT" in runtime) != p.jit:
                measured.faults.append(f"JIT={on_off(p.jit)} did not take: {runtime}")
            if p.simulated:
                # The board counts lags from the last question on.
                self._scope.counts()
            if p.throughput:
                self._search(p.rows(index), measured, worker)
            else:
                self._loop_back(p.rows(index), measured, worker)
                if p.simulated:
                    self._copy(p.rows(index), measured, worker)
            if p.simulated:
                self._boards.append(self._scope.counts())
                measured.more["board_lag_us"] = self._boards[-1].lag_max_us

    def _client(self, language: str) -> WorkerClient:
        return WorkerClient(language, self._at[language], max(ANSWER_TIMEOUT_S, self.parameters.parts_timeout_s))

    def _check_client(self, language: str) -> None:
        with closing(self._client(language)) as worker:
            worker.runtime()

    def _words(self, cell: AsipCell, pin: int) -> dict[str, object]:
        """Return what a request to the client names: the way to the board, the pins."""
        p = self.parameters
        _name, port, bit = self._board.pins[pin]
        return {
            "transport": cell.transport,
            "address": self._at[cell.transport],
            "qos": p.qos,
            "nodelay": on_off(p.tcp_nodelay),
            "reports": on_off(p.reports),
            "out": OUTPUT_PIN,
            "aside": WIRED_PIN,
            "in": pin,
            "in_port": port,
            "in_bit": bit,
        }

    def _wave(self, frequency_hz: float, count: int) -> tuple[float, list[Row]]:
        """Have a wave of `count` edges copied; return its exact frequency and the edges that were seen."""
        first = self._scope.state().count
        exact_hz = self._scope.wave(frequency_hz, count)
        self._scope.settle(count / 2 / exact_hz, self.parameters.deadline_ms / 1000)
        number = self._board.number
        return exact_hz, [(number(pin), level, cycle) for pin, level, cycle in self._scope.edges(first)]

    @contextmanager
    def _following(self, measured: CellResult[AsipCell], worker: WorkerClient) -> Iterator[None]:
        """Have the client copy pin 2 to pin 13 meanwhile; note its processor time for an edge."""
        before = self._counted()
        worker.ask("follow", **self._words(measured.cell, WAVE_PIN))
        try:
            yield
        finally:
            ended = worker.ask("stop").facts
        self._account(measured, before, ended)
        copies = int(ended["orders"]) / len(write_pin(OUTPUT_PIN, 1))
        measured.more["edge_cpu_us"] = round(int(ended["cpu_us"]) / copies, 3) if copies else None

    def _counted(self) -> Scope | None:
        """Return what a simulated board has counted by now."""
        return self._scope.state() if self.parameters.simulated else None

    def _notices(self, pin: int) -> list[int]:
        """Return the bytes of the board's notices that a pin is low, and high."""
        return [len(self._board.report(pin, level)) for level in (0, 1)]

    def _account(self, measured: CellResult[AsipCell], before: Scope | None, ended: Mapping[str, str]) -> None:
        """Note the unasked reports, and compare the bytes that client and simulated board counted."""
        if measured.more["reports_per_s"] is None:
            measured.more["reports_per_s"] = round(int(ended["reports"]) / int(ended["elapsed_us"]) * 1e6, 3)
        if before is not None:
            now = self._scope.state()
            board = now.bytes_to_board - before.bytes_to_board, now.bytes_to_client - before.bytes_to_client
            client = int(ended["sent"]), int(ended["received"])
            if board != client:
                measured.faults.append(f"the client sent and received {client} bytes, the board's wire had {board}")

    def _loop_back(self, rows: range, measured: CellResult[AsipCell], worker: WorkerClient) -> None:
        """Measure tests by the client's clock: pin 13 is wired to an input."""
        p, store = self.parameters, self.record.store
        words = {
            **self._words(measured.cell, WIRED_PIN),
            "tests": p.warmup_tests + p.messages,
            "interval_us": round(p.interval_ms * 1000),
            "deadline_us": p.deadline_ms * 1000,
        }
        before = self._counted()
        total_s = (p.messages + p.warmup_tests) * p.interval_ms / 1000 + p.deadline_ms / 1000
        times, ended = worker.ask("latency", total_s, **words)
        times = times[p.warmup_tests :]
        self._account(measured, before, ended)
        self._count_bytes(measured, ended, sum(received != ABSENT for *_, received in times))
        for row, (due_ns, sent_ns, received_ns) in zip(rows, times, strict=True):
            store["due_ns"][row], store["sent_ns"][row] = due_ns, sent_ns
            store["state"][row] = WAITING
            if received_ns != ABSENT:
                store["received_ns"][row] = received_ns
                in_time = received_ns - sent_ns <= p.deadline_ms * 1_000_000
                store["state"][row] = ANSWERED if in_time else LATE

    def _copy(self, rows: range, measured: CellResult[AsipCell], worker: WorkerClient) -> None:
        """Measure copies of a slow wave by the oscilloscope's clock."""
        with self._following(measured, worker):
            edges = self._wave(self.parameters.edge_hz, 2 * self.parameters.messages)[1]
        delays_ns = copy_delays_ns(edges)[: len(rows)]
        measured.more |= copies(delays_ns)
        for row, delay_ns in zip(rows, delays_ns, strict=False):
            self.record.store["edge_ns"][row] = ABSENT if delay_ns is None else delay_ns

    def _count_bytes(self, measured: CellResult[AsipCell], ended: Mapping[str, str], answered: int) -> None:
        """Note the time of a test on the wire, and compare the bytes that the client counted over all tests."""
        p, order = self.parameters, len(write_pin(OUTPUT_PIN, 1))
        back, notice = self._notices(WIRED_PIN)
        measured.more["wire_us"] = round(order * byte_to_board_us(p.adapter) + notice * BYTE_TO_CLIENT_US, 3)
        tests = p.messages + p.warmup_tests
        counted = int(ended["orders"]), int(ended["notices"])
        wanted = tests * 2 * order, tests * (notice + back)
        # A test without an answer may lack its notice, and the inputs of a real board float.
        wrong = counted != wanted if answered == p.messages else counted[0] != wanted[0]
        if p.simulated and wrong:
            measured.faults.append(f"{counted} bytes of tests were sent and received, expected {wanted}")

    def _search(self, rows: range, measured: CellResult[AsipCell], worker: WorkerClient) -> None:
        """Search the highest frequency that is copied without a missed edge; each step is a row of the samples."""
        p = self.parameters
        tried: list[tuple[float, bool]] = []

        def tracked(frequency_hz: float) -> bool:
            edges_in = 2 * max(1, round(frequency_hz * p.seconds))
            exact_hz, edges = self._wave(frequency_hz, edges_in)
            made = edges_out(edges, edges_in)
            self._keep(rows[len(tried)], exact_hz, edges_in, made)
            tried.append((round(exact_hz, 6), made == edges_in))
            return made == edges_in

        with self._following(measured, worker):
            self._warm_up(measured)
            bisect(tracked, p.low_hz, p.high_hz, p.resolution, len(rows))
        measured.more |= search_result(tried)

    def _warm_up(self, measured: CellResult[AsipCell]) -> None:
        """Have a slow wave copied, and compute how many waves a second fill the wire."""
        count = 2 * max(1, round(WARMUP_HZ * self.parameters.seconds))
        before = self._scope.state()
        _, edges = self._wave(WARMUP_HZ, count)
        if sum(pin != WAVE_PIN for pin, _, _ in edges) != count:
            return
        now = self._scope.state()
        up, down = sum(self._notices(WAVE_PIN)), 2 * len(write_pin(OUTPUT_PIN, 1))
        # The reports of analog pins take this time of the line.
        reports_us = (now.bytes_to_client - before.bytes_to_client - up * count / 2) * BYTE_TO_CLIENT_US
        free = 1 - reports_us / ((now.cycle - before.cycle) * CYCLE_NS / 1000)
        # Each edge's notice must have left before the next begins, and each order must have arrived.
        period_us = max(up * BYTE_TO_CLIENT_US / free, down * byte_to_board_us(self.parameters.adapter))
        measured.more["wire_hz"] = round(1e6 / period_us, 3)

    def _keep(self, row: int, frequency_hz: float, edges_in: int, made: int) -> None:
        store, now_ns = self.record.store, time.monotonic_ns()
        store["frequency_uhz"][row] = round(frequency_hz * 1e6)
        store["edges_in"][row], store["edges_out"][row] = edges_in, made
        if made == edges_in:
            store["received_ns"][row] = now_ns
        store["state"][row] = ANSWERED if made == edges_in else WAITING
        store["due_ns"][row] = now_ns
        # This comes last, because the exporter counts a row once it was sent.
        store["sent_ns"][row] = now_ns


Controller = AsipController
