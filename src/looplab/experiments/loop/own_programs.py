"""CLIENTS=own and OWN_BRIDGE: a controller or a bridge that somebody else wrote.

The controller is one process a repetition, measured by its packets, which the kernel stamps: what it measures or prints
itself counts for nothing. The bridge says nothing of itself, so the run goes by its answers. The agreement with both is
in docs/adding-an-experiment.md.
"""

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from socket import gethostbyname
from statistics import median
from time import perf_counter_ns
from typing import Any, NamedTuple

from looplab.errors import LabError, MachineError, UsageError
from looplab.experiments.loop import BRIDGE
from looplab.experiments.loop.parameters import OWN, PRINTED, LoopParameters
from looplab.experiments.loop.printed.clients import PrintedClients
from looplab.experiments.loop.printed.measurement import PrintedMeasurement
from looplab.experiments.loop.printed.wire import STEP_NS, Publish, WatchedClients
from looplab.experiments.loop.protocol import STATUS_OK, TOPIC_REQUEST, parse_answer, parse_request
from looplab.run.open_loop import MessageCounts, Sender
from looplab.run.samples import NOT_SENT
from looplab.spec.roles import Role
from looplab.system.own_process import drop_capabilities, end_child
from looplab.treatments.judgement import Treatment

# Compose mounts the program here, read-only.
PROGRAM = "/own/client"
# A program gets this long to start, and to end by itself.
START_NS, END_S = 10_000_000_000, 1.0
# One that publishes more than so many times the requests that were asked for is ended; as much slower it may be.
MOST_TIMES = 2
# By how much the median distance of two requests may differ from the interval.
MOST_DRIFT = 0.1
OUTPUT_BYTES, WORDS_KEPT = 2000, 200
PROBE_NS = 500_000_000


class Performance(NamedTuple):
    """What a program did in one repetition: `faults` in words, `distance_ms` the median between two requests."""

    sequence: int
    faults: Sequence[str]
    distance_ms: float | None


class OwnClient(WatchedClients):
    """The program, its packets and the end of its output."""

    disconnects = 0
    granted: dict[str, int] = {}  # noqa: RUF012

    def __init__(self, parameters: LoopParameters, wait_for_news: Callable[[int], None]) -> None:
        super().__init__(parameters, wait_for_news)
        self.program = Path(os.environ.get("OWN_PROGRAM") or PROGRAM)
        self._process: subprocess.Popen[bytes] | None = None
        self._output = b""
        self.performances: list[Performance] = []
        # Whether it has ever sent a request, those of the warm-up included.
        self.works = False

    def start(self, **asked: object) -> None:
        """Start the program; `asked` are its variables. Raises LabError (exit code 2) where its image lacks it."""
        p = self._parameters
        command = p.own_client.split() if p.own_image else [sys.executable, "-B", str(self.program)]
        variables = {
            # An image sets some for its program.
            **(os.environ if p.own_image else {"PATH": os.environ.get("PATH", "")}),
            "PYTHONUNBUFFERED": "1",
            **self._broker(),
            **asked,
        }
        self._output = b""
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={name: str(value) for name, value in variables.items()},
                # The controller captures packets, the program does not.
                preexec_fn=drop_capabilities,
            )
        except OSError as error:
            raise UsageError(
                f"OWN_CLIENT={p.own_client} does not start in OWN_IMAGE={p.own_image}: {error.strerror}.",
                "Name the command with its path, as ENTRYPOINT and CMD of the image have it.",
            ) from error
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)

    @property
    def exit_code(self) -> int | None:
        """The program's exit code, None while it runs or before it was started."""
        return self._process.poll() if self._process else None

    @property
    def last_words(self) -> str:
        """The last line of its output, short and printable."""
        lines = self._output.decode("utf-8", "replace").strip().splitlines() or [""]
        return "".join(letter if letter.isprintable() else "?" for letter in lines[-1][:WORDS_KEPT])

    def end(self) -> None:
        """End the program, if it does not end by itself soon."""
        if self._process is None:
            return
        end_ns = perf_counter_ns() + int(END_S * 1e9)
        while self.exit_code is None and perf_counter_ns() < end_ns:
            self.wait(perf_counter_ns() + STEP_NS)
        if self.exit_code is None:
            end_child(self._process, END_S)
        self._read()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None

    def document(self) -> dict[str, Any]:
        """Return what run.json holds of a program in a file; the environment has the id of an image."""
        if self._parameters.own_image:
            return {}
        return {"own_client": {"sha256": hashlib.sha256(self.program.read_bytes()).hexdigest()}}

    def judge_clients(self) -> Iterator[Treatment]:
        """Yield what the packets show: whether every request was sent, in time, and every packet captured."""
        p, done = self._parameters, self.performances
        faults = [f"message {one.sequence} on: {fault}" for one in done for fault in one.faults]
        more = f"; and {len(faults) - 2} more" if len(faults) > 2 else ""
        found = "; ".join(faults[:2]) + more or "all of them"
        yield Treatment("own client's requests", "each one once, as asked", found, not faults)
        size, pace, strays = p.messages * p.repetitions, [], []
        for index, cell in enumerate(p.cells):
            own = [one.distance_ms for one in done if one.sequence // size == index and one.distance_ms is not None]
            if own:
                pace.append(f"{median(own):.3g}")
                strays += [abs(median(own) - cell.interval_ms) > MOST_DRIFT * cell.interval_ms]
        wanted = f"{', '.join(f'{cell.interval_ms:g}' for cell in p.cells)} ms"
        yield Treatment("own client's interval", wanted, f"{', '.join(pace)} ms", bool(pace) and not any(strays))
        yield self._judge_packets()

    def _read(self) -> None:
        if self._process and self._process.stdout:
            self._output = (self._output + (self._process.stdout.read() or b""))[-OUTPUT_BYTES:]


class OwnMeasurement(PrintedMeasurement):
    """T1 is when the kernel saw the packet of a request leave, T2 when it saw that of the answer arrive."""

    _clients: OwnClient  # type: ignore[assignment]

    def repetition(self, first: int, count: int, interval_ns: int, qos: int) -> None:
        """Start the program for these messages, and note what it did. Raises LabError if it has never sent one."""
        client, self._first, self._unsettled = self._clients, first, 0
        self._published, self._odd, self._first_odd = 0, 0, b""
        client.on_publish = self._passed
        self.counts.begin(0)
        request = self._form.rpartition("-")[0]
        client.start(REQUEST=request, FIRST=first, COUNT=count, INTERVAL_S=interval_ns / 1e9, QOS=qos)
        rows = range(first, first + count)
        end_ns = perf_counter_ns() + START_NS + MOST_TIMES * count * interval_ns
        while client.exit_code is None and self._published < count and perf_counter_ns() < end_ns:
            client.wait(perf_counter_ns() + STEP_NS)
        client.wait(perf_counter_ns() + STEP_NS)
        ended = client.exit_code is not None
        floods = self._published > MOST_TIMES * count
        if not (ended or floods):
            self._settle(perf_counter_ns() + self._deadline_ns)
            client.end()
        code = client.exit_code if ended else 0
        client.end()
        sent = [row for row in rows if self._state[row] != NOT_SENT]
        faults = [*self._faults(len(sent), count), *([f"exit code {code}: {client.last_words}"] if code else [])]
        if not (sent or client.works):
            # An exit code brings the last line with it.
            last = "" if code else f". Its last line: {client.last_words or 'none'}"
            raise LabError(
                f"Your client sent no request: {'; '.join(faults)}{last}",
                "See docs/adding-an-experiment.md for the agreement; it must connect to BROKER_HOST and publish.",
            )
        client.works = True
        distances = [(self._sent[b] - self._sent[a]) / 1e6 for a, b in pairwise(sent)]
        client.performances.append(Performance(first, faults, median(distances) if distances else None))
        self._set_due(sent, interval_ns)
        self._unsettled = 0

    def _passed(self, one: Publish) -> None:
        if one.leaves and one.topic == TOPIC_REQUEST.encode():
            self._published += 1
            request = parse_request(one.payload)
            known = request is not None and request.run == self._token and request.sequence < self._store.count
            if not known or self._state[request.sequence] != NOT_SENT:  # type: ignore[union-attr]
                self._odd, self._first_odd = self._odd + 1, self._first_odd or one.payload[:40]
        super()._passed(one)

    def _faults(self, sent: int, count: int) -> Iterator[str]:
        if sent < count:
            yield f"{sent} of {count} requests were sent"
        if self._odd:
            words = self._first_odd.decode("ascii", "replace")
            yield f"{self._odd} more were no request that was asked for, or sent again, as {words!r}"

    def _set_due(self, sent: Sequence[int], interval_ns: int) -> None:
        """Write when each message was due: the first one when it left, none after it left."""
        sent_ns = self._sent
        for before, row in pairwise([sent[0], *sent] if sent else []):
            if self._messages.sleeps:
                due = sent_ns[before] + interval_ns
            else:
                due = sent_ns[sent[0]] + (row - sent[0]) * interval_ns
            self._due[row] = min(sent_ns[row], due)


def other_clients(parameters: LoopParameters, wait: Callable[[int], None]) -> PrintedClients | OwnClient | None:
    """Return the clients that send in the controller's place, if any."""
    if parameters.clients == PRINTED:
        return PrintedClients(parameters, wait)
    return OwnClient(parameters, wait) if parameters.clients == OWN else None


def bridge_role(parameters: LoopParameters) -> Role:
    """Return the bridge's role; a program in the user's image has any name, and is found by its address."""
    if not (parameters.own_bridge and parameters.own_image):
        return BRIDGE
    with suppress(OSError):
        return replace(BRIDGE, address=gethostbyname(BRIDGE.name))
    # It has ended already: `wait` reports that.
    return BRIDGE


def wait_for_own_bridge(parameters: LoopParameters, token: str, client: Sender, heard: Callable[[], bytes]) -> None:
    """Ask until `heard()`, the last answer, is a good one. Raises LabError (exit code 3) where none comes in time."""
    p, count = parameters, 0
    end_ns = perf_counter_ns() + p.parts_timeout_s * 1_000_000_000
    while (answer := parse_answer(heard())) is None or answer.status != STATUS_OK.encode():
        if perf_counter_ns() > end_ns:
            said = f"answers {heard()[:80]!r}" if heard() else "answers nothing"
            raise MachineError(
                f"The bridge {p.own_bridge} {said}: no good answer within {p.parts_timeout_s} s.",
                "See what it printed, and docs/adding-an-experiment.md for the agreement.",
            )
        client.publish(TOPIC_REQUEST, f"{p.command}-p{token}-{count}".encode(), 0)
        client.wait(perf_counter_ns() + PROBE_NS)
        count += 1


def judge_own_bridge(counts: MessageCounts) -> Treatment:
    """Judge whether a bridge of OWN_BRIDGE answers each request once, in the form that was agreed."""
    wrong = {"malformed": counts.malformed, "of another run": counts.foreign, "twice": sum(counts.duplicates)}
    found = ", ".join(f"{count} {name}" for name, count in wrong.items() if count)
    return Treatment("own bridge's answers", "each once, in the agreed form", found or "all of them", not found)
