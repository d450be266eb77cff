"""One run of qos-delay: waits for emulators and capture, then sets up, measures and judges cell by cell."""

import os
import time
from collections.abc import Sequence
from time import perf_counter_ns
from typing import Any

from looplab.capture import client as capture
from looplab.capture.connections import Connections
from looplab.errors import EXIT_MACHINE, LabError, MachineError
from looplab.experiments.qos_delay import EXPERIMENT, NAME, DelayCell, network
from looplab.experiments.qos_delay.delivery import Delivery, Ends
from looplab.experiments.qos_delay.document import Measured, capture_faults, faults, files, judge, measured_cell
from looplab.experiments.qos_delay.network import EMULATORS, Made
from looplab.experiments.qos_delay.parameters import QosDelayParameters
from looplab.link import client as emulator
from looplab.run.life import Run, wait_for
from looplab.run.record import Place, Record
from looplab.run.samples import SampleStore
from looplab.treatments import noise
from looplab.treatments.judgement import Treatment
from looplab.treatments.loads import loads
from looplab.treatments.looks import Look, TreatmentsClient

# After this and four end-to-end delays, what the handshakes of QoS 2 still had to send has been sent.
QUIET_NS = 50_000_000


class Controller(Run):
    """The steps of one run."""

    def __init__(self, parameters: QosDelayParameters, place: Place) -> None:
        self.parameters = parameters
        self.broker = (parameters.host_pb, parameters.broker_port)
        self.record = Record(parameters, place, (), files(parameters), {"experiment": NAME})
        self._client = TreatmentsClient([*EXPERIMENT.roles, *(load.role for load in loads().values())])
        self._capture = os.environ.get("CAPTURE_URL") or capture.URL
        self._looks: list[Look | None] = []
        self._measured: list[Measured] = []
        self._cut_short = ""

    def measure(self) -> None:
        """Wait for the parts, send every cell for as long as the emulators are there."""
        self._wait_for_emulator()
        wait_for(lambda: capture.answers(self._capture), self.parameters.parts_timeout_s, self._no_capture)
        p, record = self.parameters, self.record
        record.say("plan", cells=len(p.cells), messages=p.samples, seconds=round(p.whole_s))
        record.begin()
        for index, cell in enumerate(p.cells):
            try:
                self._measured.append(self._measure(index, cell))
            except _EmulatorGone as gone:
                self._cut_short = str(gone)
                break
            record.append(p.rows(index))
            record.state("running", self.treatments())
        self._progress(len(self._measured), self._measured[-1].cell)

    def treatments(self) -> list[Treatment]:
        return judge(self.parameters, self._looks, self._measured) if self._measured else []

    def contents(self) -> dict[str, Any]:
        p, store = self.parameters, self.record.store
        cells = [measured_cell(p, store, p.rows(at), entry) for at, entry in enumerate(self._measured)]
        return {"cells": cells, "noise_floor": noise.over(self._looks)}

    def faults(self) -> Sequence[str]:
        """Return why cells are INVALID, and why not every cell was measured."""
        return faults(self.parameters, self._measured, self._cut_short)

    def close(self) -> None:
        network.take_away(EMULATORS)

    def _measure(self, index: int, cell: DelayCell) -> Measured:
        """One cell, its links, connections and capture its own. Raises LabError, _EmulatorGone."""
        measured = Measured(cell, self._set_up_links(cell))
        self._begin_capture(measured)
        connections = [self._repetition(index, number, measured) for number in range(self.parameters.repetitions)]
        network.judge(self.parameters, cell, measured.made, EMULATORS)
        if measured.counts["disconnects"]:
            measured.faults.append("a connection was lost during the cell: its segments are not all counted")
        self._end_capture(measured, connections)
        return measured

    def _repetition(self, index: int, number: int, measured: Measured) -> Connections:
        """Send one repetition of a cell over connections of its own; return them. Raises LabError."""
        ends = Ends(self.parameters, self.record.token)
        try:
            self._connect(ends)
            self._warm_up(ends, measured.cell)
            self._look(ends)
            self._progress(index, measured.cell, number)
            return self._deliver(index, number, ends, measured)
        finally:
            ends.close()

    def _deliver(self, index: int, number: int, ends: Ends, measured: Measured) -> Connections:
        p = self.parameters
        first = p.rows(index).start + number * p.messages
        delivery = Delivery(ends, self.record.store, p, self.record.token, p.messages * p.repetitions)
        publisher_port, subscriber_port = ends.ports()
        since_s = time.time()
        delivery.repetition(first, p.messages, round(p.interval_ms * 1e6), measured.cell.qos)
        delivery.drain(range(first, first + p.messages))
        self._quiet(ends, measured.cell)
        until_s = time.time()
        self._look(ends)
        counts = delivery.counts.of_cell(index)
        measured.counts = {name: measured.counts.get(name, 0) + count for name, count in counts.items()}
        return Connections(publisher_port, subscriber_port, since_s, until_s)

    def _set_up_links(self, cell: DelayCell) -> Made:
        """An emulator that was restarted is waited for; one that stays away ends the sweep."""
        try:
            return network.set_up(self.parameters, cell, EMULATORS)
        except LabError as error:
            if error.exit_code != EXIT_MACHINE:
                raise
        try:
            self._wait_for_emulator()
            return network.set_up(self.parameters, cell, EMULATORS)
        except LabError as error:
            if not self._measured:
                raise
            raise _EmulatorGone(error.message) from error

    def _wait_for_emulator(self) -> None:
        """Wait until both emulators answer. Raises LabError (exit code 3) if one does not."""
        self.record.say("waiting", what="link emulator")
        errors: list[LabError] = []

        def answers() -> bool:
            try:
                for url in EMULATORS.values():
                    emulator.state(url)
            except LabError as error:
                errors.append(error)
                return False
            return True

        wait_for(answers, self.parameters.parts_timeout_s, lambda: errors[-1])

    def _no_capture(self) -> LabError:
        remedy = "See `docker compose logs qos-delay-capture`."
        return MachineError(f"The capture at {self._capture} does not answer.", remedy)

    def _connect(self, ends: Ends) -> None:
        p = self.parameters
        if not ends.connect(p.parts_timeout_s):
            raise MachineError(
                f"No broker: {ends.last_error} after {p.parts_timeout_s} s.",
                "See `docker compose logs qos-delay-broker`, and that no scenario runs beside this experiment.",
            )

    def _warm_up(self, ends: Ends, cell: DelayCell) -> None:
        """A few messages along the whole way, with a token of their own: part of no cell."""
        p = self.parameters
        store = SampleStore(p.warmup_messages)
        delivery = Delivery(ends, store, p, f"w{self.record.token}", p.warmup_messages)
        delivery.repetition(0, p.warmup_messages, round(p.interval_ms * 1e6), cell.qos)
        if not any(time_ns >= 0 for time_ns in store["received_ns"]):
            raise MachineError(
                f"None of {p.warmup_messages} messages came through within {p.deadline_ms} ms.",
                "See `docker compose logs qos-delay-broker qos-delay-link`; DEADLINE_MS must exceed the delay.",
            )
        self._quiet(ends, cell)

    def _quiet(self, ends: Ends, cell: DelayCell) -> None:
        """Let every acknowledgement arrive that is still on its way."""
        ends.wait(perf_counter_ns() + QUIET_NS + round(4e6 * (cell.delay_pb_ms + cell.delay_bs_ms)))

    def _begin_capture(self, measured: Measured) -> None:
        try:
            capture.start(self.parameters.broker_port, self._capture)
        except LabError as error:
            measured.faults.append(error.message)

    def _end_capture(self, measured: Measured, connections: Sequence[Connections]) -> None:
        if measured.faults:
            return
        try:
            measured.captured = capture.stop(connections, self._capture)
        except LabError as error:
            measured.faults.append(error.message)
            return
        measured.faults += capture_faults(measured.captured, len(self.parameters.rows(0)))

    def _look(self, ends: Ends) -> None:
        """Have the treatments verified while the cell's connections are there, and never while it sends."""
        self._looks.append(self._client.look({}))
        ends.wait(perf_counter_ns() + 10_000_000)
        self.record.state("running", self.treatments())

    def _progress(self, index: int, cell: DelayCell, number: int = 0) -> None:
        p, done = self.parameters, (index * self.parameters.repetitions + number) * self.parameters.messages
        received = self.record.store["received_ns"]
        left_s = (p.samples - done) * p.interval_ms / 1000 + (len(p.cells) - index) * p.overhead_s
        answered = sum(received[row] >= 0 for row in range(done))
        self.record.progress(f"{cell.pair} ms QoS {cell.qos}", answered, done, left_s)


class _EmulatorGone(Exception):
    """No further cell can have its delay."""
