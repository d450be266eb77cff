"""The printed clients' processes: publisher and subscriber, each an interpreter with a connection of its own."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from time import perf_counter_ns
from typing import Any

from looplab.errors import LabError, MachineError
from looplab.experiments.loop.parameters import REPETITION, Parameters
from looplab.experiments.loop.printed import PUBLISHER, SUBSCRIBER
from looplab.experiments.loop.printed.wire import Publish, Wire
from looplab.experiments.loop.protocol import subscription_qos
from looplab.spec.brokers import BROKERS
from looplab.treatments.broker import access
from looplab.treatments.judgement import on_off

# In the image `printed`.
FOLDER = "/opt/printed"
STEP_NS = 20_000_000
START_TIMEOUT_NS = 15_000_000_000
# The controller alone captures packets; what the published flags permit is theirs, too.
_NO_CAPTURE = ("setpriv", "--inh-caps=-net_raw", "--ambient-caps=-net_raw")


class Program:
    """One of the two; `lines` holds what it printed and nobody has taken yet, `started_ns` when it began."""

    def __init__(self, name: str, interpreter: str, environment: Mapping[str, str]) -> None:
        self.name, self.started_ns = name, perf_counter_ns()
        folder = os.environ.get("PRINTED_CLIENTS") or FOLDER
        command = [*_NO_CAPTURE, interpreter, "-W", "ignore", f"{folder}/{name}.py"]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env={**os.environ, **environment})
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        os.set_blocking(self._output.fileno(), False)
        self._rest = b""
        self.lines: list[dict[str, Any]] = []
        # What it reported of itself at each connection.
        self.hellos: list[dict[str, Any]] = []

    def read(self) -> None:
        """Take what it has printed. Raises LabError (exit code 1) once it has ended."""
        *lines, self._rest = (self._rest + (self._output.read() or b"")).split(b"\n")
        for line in map(json.loads, lines):
            (self.hellos if "granted" in line else self.lines).append(line)
        if not lines and (code := self._process.poll()) is not None:
            raise LabError(f"The printed {self.name} ended with exit code {code}.", "Read its message above.")

    def tell(self, line: str) -> None:
        """Give the publisher a line."""
        self._input.write(line.encode() + b"\n")
        self._input.flush()

    def ask(self) -> None:
        """Have the subscriber report."""
        self._process.send_signal(signal.SIGUSR1)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._input.close()
        self._output.close()


class Programs:
    """The two programs, and the packets; what sends the messages of an open loop (looplab.run.open_loop.Sender).

    `wait(until_ns)` serves the controller's own connection. `ended` holds what each program reported that is over.
    """

    sock = None

    def __init__(self, parameters: Parameters, wire: Wire, wait: Callable[[int], None]) -> None:
        self._parameters, self._wire, self._wait = parameters, wire, wait
        self.on_publish: Callable[[Publish], None] = lambda _publish: None
        # Called once both run.
        self.on_start: Callable[[], object] = lambda: None
        self.live: dict[str, Program] = {}
        self.ended: list[dict[str, Any]] = []
        self._reconnected = 0

    @property
    def interpreter(self) -> str:
        """The wanted one, or this one where it is not installed."""
        return (self._parameters.python == "2.7" and shutil.which("python2.7")) or sys.executable

    @property
    def disconnects(self) -> int:
        return self._reconnected + sum(max(0, len(one.hellos) - 1) for one in self.live.values())

    @property
    def reports(self) -> list[dict[str, Any]]:
        """What each program reported of itself, in the order of their starts."""
        return [*self.ended, *(one.hellos[-1] for one in self.live.values() if one.hellos)]

    def publish(self, topic: str, payload: bytes, qos: int) -> bool:
        """Return False: nothing is sent for the loop, the publisher publishes by itself (`send`)."""
        return False

    def wait(self, until_ns: int) -> None:
        """Take packets and lines until `until_ns`; seldom, so that the programs are not disturbed."""
        while True:
            now = perf_counter_ns()
            self._wait(min(until_ns, now + STEP_NS))
            for one in self._wire.read():
                self.on_publish(one)
            for program in self.live.values():
                program.read()
            if perf_counter_ns() >= until_ns:
                return

    def begin(self) -> None:
        """Start both where they do not run; the subscriber first, as a person must. Raises LabError."""
        if self.live:
            return
        self._start(SUBSCRIBER)
        self._start(PUBLISHER)
        self.on_start()

    def _start(self, name: str) -> None:
        program = self.live[name] = Program(name, self.interpreter, self._environment(name))
        self._until(lambda: program.hellos, f"The printed {name} has no subscription")

    def send(self, first: int, count: int, interval_ns: int, qos: int, form: str) -> list[tuple[int, int]]:
        """Have the publisher send; return (sequence, ns since 1970) of each message once all have left."""
        publisher = self.live[PUBLISHER]
        publisher.tell(f"{first} {count} {interval_ns / 1e9} {qos} {form}")
        return self._stamps(publisher, 10 * count * interval_ns)

    def answers(self) -> list[tuple[str, int]]:
        """Return (payload, ns since 1970) of each answer since the last call, as the subscriber stamped it."""
        self.live[SUBSCRIBER].ask()
        return self._stamps(self.live[SUBSCRIBER])

    def conclude(self) -> None:
        """End both if each repetition has its own."""
        if self._parameters.life == REPETITION:
            self.close()

    def close(self) -> None:
        self._reconnected = self.disconnects
        self.ended = self.reports
        for program in self.live.values():
            program.end()
        self.live = {}

    def _environment(self, name: str) -> dict[str, str]:
        p = self._parameters
        qos = subscription_qos(p.qos_legs, max(p.qos)) if name == SUBSCRIBER else 0
        pairing = access()
        return {
            "BROKER_HOST": p.broker_host,
            "BROKER_PORT": str(p.broker_port),
            "BROKER_USER": pairing.user if pairing else "",
            "BROKER_PASSWORD": pairing.password if pairing else "",
            "TCP_NODELAY": on_off(p.tcp_nodelay),
            "QOS": str(min(qos, max(BROKERS[p.broker].qos))),
            "RECEIVER": p.receiver,
            "PYTHONPATH": os.environ.get("PRINTED_PAHO", "") if self.interpreter.endswith("2.7") else "",
        }

    def _stamps(self, program: Program, more_ns: int = 0) -> list[Any]:
        self._until(lambda: program.lines, f"The printed {program.name} reports nothing", more_ns)
        stamps: list[Any] = program.lines.pop(0)["stamps"]
        return stamps

    def _until(self, done: Callable[[], object], problem: str, more_ns: int = 0) -> None:
        end_ns = perf_counter_ns() + START_TIMEOUT_NS + more_ns
        while not done():
            if perf_counter_ns() > end_ns:
                raise MachineError(f"{problem} within {(START_TIMEOUT_NS + more_ns) / 1e9:.0f} s.", "Repeat the run.")
            self.wait(perf_counter_ns() + STEP_NS)
