"""One run of qos-delay from its parameters to results/: waits for the parts, measures cell by cell, stores."""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from looplab.capture import client as capture
from looplab.errors import EXIT_MACHINE, LabError
from looplab.experiments.qos_delay import NAME, network
from looplab.experiments.qos_delay.delivery import Delivery, Ends
from looplab.experiments.qos_delay.document import (
    HEADER,
    Measured,
    capture_faults,
    judge,
    run_document,
    sample_lines,
    transport_lines,
)
from looplab.experiments.qos_delay.network import Emulators, Made
from looplab.experiments.qos_delay.parameters import CELL_OVERHEAD_S, Cell, QosDelayParameters
from looplab.link import client as emulator
from looplab.run.folder import SCHEMA, TRANSPORT_HEADER, RunFolder
from looplab.run.process import Interrupted, Say, heard, keep_interrupted, live_store, write_state
from looplab.run.samples import SampleStore
from looplab.system.machine_facts import describe
from looplab.treatments import judgement as treatments

TREATMENTS_URL = "http://treatments:9100/facts"
LOOK_S = 0.2
# After this and four end-to-end delays, what the handshakes of QoS 2 still had to send has been sent.
QUIET_NS = 50_000_000


class Experiment:
    """Owns one run; `say(event, **facts)` reports progress to a person or to ./lab."""

    def __init__(self, parameters: QosDelayParameters, results: Path, live: Path | None, say: Say) -> None:
        self.parameters = parameters
        self._say = say
        self._live = live
        self._store = live_store(parameters.samples, live)
        self._folder = RunFolder(results, parameters.scenario, parameters.samples, samples_header=HEADER)
        self._token = secrets.token_hex(4)
        self._client = treatments.TreatmentsClient(os.environ.get("TREATMENTS_URL") or TREATMENTS_URL)
        self._emulators = Emulators()
        self._capture = os.environ.get("CAPTURE_URL") or capture.URL
        self._looks: list[dict[str, Any] | None] = []
        self._measured: list[Measured] = []
        self._cut_short = ""
        self._started_s = 0.0
        self._environment = describe(os.environ.get("LOOPLAB_ENVIRONMENT", ""))

    def run(self) -> dict[str, Any]:
        """Measure, store, and return the run.json document. Raises LabError, Interrupted."""
        try:
            self._wait_for_parts()
            self._sweep()
            run = self._document()
            self._write_all()
        except (Interrupted, KeyboardInterrupt):
            heard()
            self._keep("interrupted")
            raise Interrupted from None
        except LabError as error:
            self._keep(str(error))
            raise
        finally:
            network.take_away(self._emulators)
        self._folder.finish(run)
        self._state("finished")
        return run

    def _wait_for_parts(self) -> None:
        self._wait_for_emulator()
        end_s = time.monotonic() + self.parameters.parts_timeout_s
        while not capture.answers(self._capture):
            if time.monotonic() > end_s:
                raise LabError(
                    f"The capture at {self._capture} does not answer.",
                    "See `docker compose logs qd-capture`.",
                    EXIT_MACHINE,
                )
            time.sleep(LOOK_S)

    def _sweep(self) -> None:
        p = self.parameters
        cells = p.cells
        self._say("plan", cells=len(cells), messages=p.messages, seconds=round(p.whole_s))
        self._started_s = time.monotonic()
        for index, cell in enumerate(cells):
            try:
                self._measured.append(self._measure(index, cell))
            except _EmulatorGone as gone:
                self._cut_short = str(gone)
                break
            self._folder.append("samples.csv", sample_lines(p, self._store, p.rows(index)))
            self._state("running")
        self._progress(len(self._measured), self._measured[-1].cell)

    def _measure(self, index: int, cell: Cell) -> Measured:
        """One cell, its links, connections and capture its own. Raises LabError, _EmulatorGone."""
        measured = Measured(cell, self._set_up_links(cell))
        self._begin_capture(measured)
        ends = Ends(self.parameters, self._token)
        try:
            self._connect(ends)
            self._warm_up(ends, cell)
            self._look(ends)
            self._progress(index, cell)
            self._deliver(index, ends, measured)
        finally:
            ends.close()
        return measured

    def _deliver(self, index: int, ends: Ends, measured: Measured) -> None:
        p, rows = self.parameters, self.parameters.rows(index)
        delivery = Delivery(ends, self._store, p, self._token, p.messages)
        publisher_port, subscriber_port = ends.ports()
        since_s = time.time()
        delivery.repetition(rows.start, p.messages, round(p.interval_ms * 1e6), measured.cell.qos)
        delivery.drain(rows)
        self._quiet(ends, measured.cell)
        network.judge(p, measured.cell, measured.made, self._emulators)
        self._look(ends)
        measured.counts = {
            "duplicates": delivery.duplicates[index],
            "out_of_order": delivery.out_of_order[index],
            "disconnects": delivery.disconnects[index],
        }
        if measured.counts["disconnects"]:
            measured.faults.append("a connection was lost during the cell: its segments are not all counted")
        self._end_capture(measured, publisher_port, subscriber_port, since_s)

    def _set_up_links(self, cell: Cell) -> Made:
        """An emulator that was restarted is waited for; one that stays away ends the sweep."""
        try:
            return network.set_up(self.parameters, cell, self._emulators)
        except LabError as error:
            if error.exit_code != EXIT_MACHINE:
                raise
        try:
            self._wait_for_emulator()
            return network.set_up(self.parameters, cell, self._emulators)
        except LabError as error:
            if not self._measured:
                raise
            raise _EmulatorGone(error.message) from error

    def _wait_for_emulator(self) -> None:
        """Until the emulator answers; raises LabError (exit code 3) where it does not."""
        self._say("waiting", what="link emulator")
        end_s = time.monotonic() + self.parameters.parts_timeout_s
        while True:
            try:
                for url in (self._emulators.own, self._emulators.broker):
                    emulator.state(url)
                return
            except LabError:
                if time.monotonic() > end_s:
                    raise
            time.sleep(LOOK_S)

    def _connect(self, ends: Ends) -> None:
        p = self.parameters
        if not ends.connect(p.parts_timeout_s):
            raise LabError(
                f"No broker: {ends.last_error} after {p.parts_timeout_s} s.",
                "See `docker compose logs qd-broker`, and that no scenario runs beside this experiment.",
                EXIT_MACHINE,
            )

    def _warm_up(self, ends: Ends, cell: Cell) -> None:
        """A few messages along the whole way, with a token of their own: part of no cell."""
        p = self.parameters
        store = SampleStore(p.warmup_messages)
        delivery = Delivery(ends, store, p, f"w{self._token}", p.warmup_messages)
        delivery.repetition(0, p.warmup_messages, round(p.interval_ms * 1e6), cell.qos)
        if not any(time_ns >= 0 for time_ns in store["received_ns"]):
            raise LabError(
                f"None of {p.warmup_messages} messages came through within {p.deadline_ms} ms.",
                "See `docker compose logs qd-broker qd-link`; DEADLINE_MS must exceed the delay of the network.",
                EXIT_MACHINE,
            )
        self._quiet(ends, cell)

    def _quiet(self, ends: Ends, cell: Cell) -> None:
        """Let every acknowledgement arrive that is still on its way."""
        ends.wait(perf_counter_ns() + QUIET_NS + round(4e6 * (cell.delay_pb_ms + cell.delay_bs_ms)))

    def _begin_capture(self, measured: Measured) -> None:
        try:
            capture.start(self.parameters.broker_port, self._capture)
        except LabError as error:
            measured.faults.append(error.message)

    def _end_capture(self, measured: Measured, publisher_port: int, subscriber_port: int, since_s: float) -> None:
        if measured.faults:
            return
        try:
            measured.captured = capture.stop([publisher_port], [subscriber_port], since_s, self._capture)
        except LabError as error:
            measured.faults.append(error.message)
            return
        measured.faults += capture_faults(measured.captured, self.parameters.messages)

    def _look(self, ends: Ends) -> None:
        """Have the treatments verified while the cell's connections are there, and never while it sends."""
        self._looks.append(self._client.facts(self.parameters, published=False))
        ends.wait(perf_counter_ns() + 10_000_000)
        self._state("running")

    def _progress(self, index: int, cell: Cell) -> None:
        p = self.parameters
        rows = range(index * p.messages)
        received = self._store["received_ns"]
        self._say(
            "repetition",
            scenario=p.scenario,
            cell=f"{cell.pair} ms QoS {cell.qos}",
            interval_ms=p.interval_ms,
            qos=cell.qos,
            repetition=1,
            repetitions=1,
            messages_done=len(rows),
            messages=p.samples,
            answered=sum(received[row] >= 0 for row in rows),
            seconds_left=round((len(p.cells) - index) * (p.messages * p.interval_ms / 1000 + CELL_OVERHEAD_S), 1),
            elapsed_s=round(time.monotonic() - self._started_s, 1),
        )

    def _document(self) -> dict[str, Any]:
        more = {
            "schema": SCHEMA,
            "experiment": NAME,
            "run_id": self._folder.run_id,
            "token": self._token,
            "environment": self._environment,
        }
        return run_document(self.parameters, self._store, self._looks, self._measured, self._cut_short, more)

    def _write_all(self) -> None:
        p = self.parameters
        rows = range(p.samples)
        self._folder.rewrite("samples.csv", HEADER, sample_lines(p, self._store, rows))
        self._folder.rewrite("transport.csv", TRANSPORT_HEADER, transport_lines(self._store, rows))

    def _keep(self, why: str) -> None:
        kept = keep_interrupted(self._folder, self._store, self.parameters.scenario, why, self._write_all)
        self._state("interrupted")
        if kept:
            self._say("interrupted", path=kept, why=why)

    def _state(self, state: str) -> None:
        found = judge(self.parameters, self._looks, self._measured) if self._measured else []
        write_state(
            self._live,
            {
                "state": state,
                "run_id": self._folder.run_id,
                "parameters": self.parameters.as_json(),
                "treatments": [t.as_json() for t in found],
            },
        )


class _EmulatorGone(Exception):
    """No further cell can have its delay."""
