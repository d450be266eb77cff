"""CLIENTS=own: a controller that somebody else wrote, one process a repetition, measured by its packets.

The kernel stamps the packets: what the program itself measures or prints counts for nothing. The agreement with such
a program, and with a bridge of OWN_BRIDGE, is in docs/adding-an-experiment.md.
"""

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import perf_counter_ns
from typing import Any, NamedTuple

from looplab.errors import LabError, UsageError
from looplab.experiments.loop.parameters import OWN, PRINTED, LoopParameters
from looplab.experiments.loop.printed.clients import STEP_NS, PrintedClients
from looplab.experiments.loop.printed.measurement import PrintedMeasurement
from looplab.experiments.loop.printed.wire import Publish, Wire
from looplab.experiments.loop.protocol import TOPIC_REQUEST, parse_request
from looplab.run.samples import NOT_SENT
from looplab.system.own_process import drop_capabilities, end_child
from looplab.treatments.broker import access
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


class Performance(NamedTuple):
    """What a program did in one repetition: `faults` in words, `distance_ms` the median between two requests."""

    sequence: int
    faults: Sequence[str]
    distance_ms: float | None


class OwnClient:
    """The program, its packets and the end of its output; the sender and receiver of an `OwnMeasurement`."""

    sock, disconnects = None, 0
    granted: dict[str, int] = {}  # noqa: RUF012

    def __init__(self, parameters: LoopParameters, wait_for_news: Callable[[int], None]) -> None:
        self._parameters, self._wait_for_news = parameters, wait_for_news
        self._wire = Wire(parameters.broker_port)
        self.program = Path(os.environ.get("OWN_PROGRAM") or PROGRAM)
        self.on_publish: Callable[[Publish], None] = lambda _publish: None
        self._process: subprocess.Popen[bytes] | None = None
        self._output = b""
        self.performances: list[Performance] = []
        # Whether it has ever sent a request, those of the warm-up included.
        self.works = False

    def publish(self, topic: str, payload: bytes, qos: int) -> bool:
        """Return False: the program publishes by itself."""
        return False

    def wait(self, until_ns: int) -> None:
        """Take packets and output until `until_ns`."""
        while True:
            now = perf_counter_ns()
            self._wait_for_news(min(until_ns, now + STEP_NS))
            for one in self._wire.read():
                self.on_publish(one)
                # A flood of packets must not keep the lab from ending the program.
                if perf_counter_ns() > until_ns + STEP_NS:
                    break
            self._read()
            if perf_counter_ns() >= until_ns:
                return

    def start(self, **asked: object) -> None:
        """Start the program; `asked` are its variables. Raises LabError (exit code 2) where its image lacks it."""
        p, pairing = self._parameters, access()
        command = p.own_client.split() if p.own_image else [sys.executable, "-B", str(self.program)]
        variables = {
            # An image sets some for its program.
            **(os.environ if p.own_image else {"PATH": os.environ.get("PATH", "")}),
            "PYTHONUNBUFFERED": "1",
            "BROKER_HOST": p.broker_host,
            "BROKER_PORT": p.broker_port,
            "BROKER_USER": pairing.user if pairing else "",
            "BROKER_PASSWORD": pairing.password if pairing else "",
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

    def close(self) -> None:
        self.end()
        self._wire.close()

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
        lacking = {"dropped": self._wire.dropped, "unstamped": self._wire.unstamped}
        words = ", ".join(f"{count} {name}" for name, count in lacking.items())
        yield Treatment("packets of the clients", "every one captured and stamped", words, not any(lacking.values()))

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
        due_ns, sent_ns = self._rows[2], self._sent
        for before, row in pairwise([sent[0], *sent] if sent else []):
            if self._messages.sleeps:
                due = sent_ns[before] + interval_ns
            else:
                due = sent_ns[sent[0]] + (row - sent[0]) * interval_ns
            due_ns[row] = min(sent_ns[row], due)


def other_clients(parameters: LoopParameters, wait: Callable[[int], None]) -> PrintedClients | OwnClient | None:
    """Return the clients that send in the controller's place, if any."""
    if parameters.clients == PRINTED:
        return PrintedClients(parameters, wait)
    return OwnClient(parameters, wait) if parameters.clients == OWN else None
