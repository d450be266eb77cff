"""One run of qos-delay: waits for emulators and capture, then sets up, measures and judges cell by cell."""

import contextlib
import os
import time
from collections.abc import Sequence
from time import perf_counter_ns
from typing import Any

from looplab.capture import CapturedConnections
from looplab.capture import client as capture
from looplab.errors import LabError, MachineError
from looplab.experiments.qos_delay import EXPERIMENT, DelayCell, network, treatments
from looplab.experiments.qos_delay.delivery import Delivery, Ends
from looplab.experiments.qos_delay.network import DelayResult
from looplab.experiments.qos_delay.parameters import QosDelayParameters
from looplab.run.cells import CellRun, CutShort
from looplab.run.record import Place
from looplab.run.samples import SampleStore
from looplab.treatments.judgement import Treatment

# After this and four end-to-end delays, what the handshakes of QoS 2 still had to send has been sent.
QUIET_NS = 50_000_000


class DelayController(CellRun[QosDelayParameters, DelayCell]):
    """The steps of one run."""

    experiment = EXPERIMENT

    def __init__(self, parameters: QosDelayParameters, place: Place) -> None:
        super().__init__(parameters, place)
        self.broker = (parameters.host_pb, parameters.broker_port)
        self._capture = os.environ.get("CAPTURE_URL") or capture.URL

    def prepare(self) -> None:
        self._set_up_links(self.parameters.cells[0])
        self.wait_for_part("capture", lambda: capture.check(self._capture))

    def conclude(self, index: int) -> None:
        """Store the samples; the treatments were read while the cell's connections were there."""
        self.record.append(self.parameters.rows(index))

    def judge(self) -> list[Treatment]:
        measured = [one for one in self.measured if isinstance(one, DelayResult)]
        return self.by_scans(lambda scans: treatments.judge(self.parameters, scans, measured))

    def close(self) -> None:
        network.clear()

    def measure_cell(self, index: int, cell: DelayCell) -> DelayResult:
        """One cell, its links, connections and capture its own."""
        measured = DelayResult(cell, backend=self._set_up_links(cell))
        try:
            capture.start(self.parameters.broker_port, self._capture)
        except LabError as error:
            measured.faults.append(error.message)
        connections = [self._repetition(index, number, measured) for number in range(self.parameters.repetitions)]
        network.judge(self.parameters, measured)
        if measured.more["disconnects"]:
            measured.faults.append("a connection was lost during the cell: its segments are not all counted")
        if not measured.faults:
            self._end_capture(measured, connections)
        measured.faults[:0] = measured.link_faults
        measured.more.update(more_figures(self.parameters, measured))
        return measured

    def _repetition(self, index: int, number: int, measured: DelayResult) -> CapturedConnections:
        """Send one repetition of a cell over connections of its own; return them. Raises LabError."""
        with contextlib.closing(Ends(self.parameters, self.record.token)) as ends:
            self._connect(ends)
            self._warm_up(ends, measured.cell)
            self._scan(ends)
            self.progress(index, measured.cell, number * self.parameters.messages)
            return self._deliver(index, number, ends, measured)

    def _deliver(self, index: int, number: int, ends: Ends, measured: DelayResult) -> CapturedConnections:
        p = self.parameters
        first = p.rows(index).start + number * p.messages
        delivery = Delivery(ends, self.record.store, p, self.record.token, p.messages * p.repetitions)
        publisher_port, subscriber_port = ends.ports()
        since_s = time.time()
        delivery.repetition(first, p.messages, round(p.interval_ms * 1e6), measured.cell.qos)
        delivery.drain(range(first, first + p.messages))
        self._quiet(ends, measured.cell)
        until_s = time.time()
        self._scan(ends)
        for name, count in delivery.counts.of_cell(index).items():
            measured.more[name] = measured.more.get(name, 0) + count
        return CapturedConnections(publisher_port, subscriber_port, since_s, until_s)

    def _set_up_links(self, cell: DelayCell) -> str:
        """Have the links of a cell made; return what makes them. An emulator that stays away ends the sweep."""
        with contextlib.suppress(LabError):
            return network.apply(self.parameters, cell)
        try:
            # One may start later, or was restarted.
            self.wait_for_part("link emulator", lambda: network.apply(self.parameters, cell))
        except LabError as error:
            if not self.measured:
                raise
            raise CutShort(error.message) from error
        return network.apply(self.parameters, cell)

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
        # Drain: messages that a lossy link still holds would be sent among the cell's own.
        delivery.drain(range(p.warmup_messages))
        if not any(time_ns >= 0 for time_ns in store["received_ns"]):
            raise MachineError(
                f"None of {p.warmup_messages} messages came through within {p.deadline_ms} ms.",
                "See `docker compose logs qos-delay-broker qos-delay-link`; DEADLINE_MS must exceed the delay.",
            )
        self._quiet(ends, cell)

    def _quiet(self, ends: Ends, cell: DelayCell) -> None:
        """Let every acknowledgement arrive that is still on its way."""
        ends.wait(perf_counter_ns() + QUIET_NS + round(4e6 * cell.wanted_ms))

    def _end_capture(self, measured: DelayResult, connections: Sequence[CapturedConnections]) -> None:
        try:
            measured.captured = capture.stop(connections, self._capture)
            measured.faults += treatments.capture_faults(self.parameters, measured.captured)
        except LabError as error:
            measured.faults.append(error.message)

    def _scan(self, ends: Ends) -> None:
        """Have the treatments verified while the cell's connections are there, and never while it sends."""
        self.scan()
        ends.wait(perf_counter_ns() + 10_000_000)
        self.record.state("running", self.treatments())


def more_figures(p: QosDelayParameters, measured: DelayResult) -> dict[str, Any]:
    """Return what run.json holds of a cell beside its samples and counts: its links, and what the capture counted."""
    cell, captured = measured.cell, measured.captured or {}
    sent = p.messages * p.repetitions
    return {
        "jitter_ms": {link: p.jitter_ms(ms, cell.network) for link, ms in zip(("pb", "bs"), cell.key, strict=False)},
        "interval_ms": p.interval_ms,
        "end_to_end_ms": measured.end_to_end_ms(),
        "segments": captured.get("segments"),
        "capture": {name: captured.get(name) for name in ("captured", "dropped", "published")},
        "links": {"backend": measured.backend, "ways": measured.ways},
        "packets_per_message": {name: round(n / sent, 4) for name, n in captured.get("packets", {}).items()},
    }


# The name that looplab.run.life knows it by.
Controller = DelayController
