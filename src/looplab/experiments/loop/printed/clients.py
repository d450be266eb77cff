"""The printed clients of a run: publisher and subscriber, each a process of its own with a connection of its own."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from time import perf_counter_ns
from typing import Any

from looplab.errors import LabError, MachineError
from looplab.experiments.loop import CLIENTS
from looplab.experiments.loop.parameters import REPETITION, LoopParameters
from looplab.experiments.loop.printed import PUBLISHER, SUBSCRIBER
from looplab.experiments.loop.printed.wire import STEP_NS, WatchedClients
from looplab.experiments.loop.protocol import SPIN, subscription_qos
from looplab.experiments.loop.treatments import judge_path, judge_permission
from looplab.spec.brokers import BROKERS
from looplab.treatments.judgement import Treatment, compared, judge_nodelay, on_off, policy, unverified
from looplab.treatments.scans import Scan, TreatmentsClient, mqtt_sockets, processes

# The image `printed` has the clients here.
FOLDER = "/opt/printed"
START_TIMEOUT_NS = 15_000_000_000
# Only the controller may capture packets; the clients keep what the published flags permit.
_NO_CAPTURE = ("setpriv", "--inh-caps=-net_raw", "--ambient-caps=-net_raw")
# A thread that spins is on a processor or waits for one for at least this share of its life; one that sleeps is not.
LEAST_SPIN = 0.6


class PrintedClient:
    """One of the two; `lines` holds what it printed and nobody has taken yet, `started_ns` when it began."""

    def __init__(self, name: str, interpreter: str, environment: Mapping[str, str]) -> None:
        self.name, self.started_ns = name, perf_counter_ns()
        folder = os.environ.get("PRINTED_CLIENTS") or FOLDER
        command = [*_NO_CAPTURE, interpreter, "-W", "ignore", f"{folder}/{name}.py"]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env={**os.environ, **environment})
        self.pid = self._process.pid
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        os.set_blocking(self._output.fileno(), False)
        self._rest = b""
        self.lines: list[dict[str, Any]] = []

    def read(self) -> Iterator[dict[str, Any]]:
        """Yield what it has printed. Raises LabError (exit code 1) once it has ended."""
        *lines, self._rest = (self._rest + (self._output.read() or b"")).split(b"\n")
        yield from map(json.loads, lines)
        if not lines and (code := self._process.poll()) is not None:
            raise LabError(f"The printed {self.name} ended with exit code {code}.", "Read its message above.")

    def write(self, line: str) -> None:
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


class PrintedClients(WatchedClients):
    """Both clients, and their packets. Scans are taken while both run."""

    def __init__(self, parameters: LoopParameters, wait_for_news: Callable[[int], None]) -> None:
        super().__init__(parameters, wait_for_news)
        self._treatments = TreatmentsClient([CLIENTS, BROKERS[parameters.broker].role])
        self._fifo = parameters.priority_controller if parameters.apply_priority else 0
        self._live: dict[str, PrintedClient] = {}
        # What each process reported of itself at each connection.
        self._reports: list[dict[str, Any]] = []
        self._scans: list[Scan | None] = []
        # By scan: the share of its life that the subscriber was on a processor or waited for one.
        self._runnable: list[float] = []

    @property
    def interpreter(self) -> str:
        """The wanted one, or this one where it is not installed."""
        return (self._parameters.python == "2.7" and shutil.which("python2.7")) or sys.executable

    @property
    def disconnects(self) -> int:
        return len(self._reports) - len(self._pids)

    @property
    def _pids(self) -> set[int]:
        return {report["pid"] for report in self._reports}

    @property
    def granted(self) -> dict[str, int]:
        """The QoS that the broker granted, by topic; the highest of all processes."""
        granted: dict[str, int] = {}
        for report in self._reports:
            for topic, qos in report["granted"].items():
                granted[topic] = max(qos, granted.get(topic, 0))
        return granted

    def begin(self) -> None:
        """Start both where they do not run; the subscriber first, as a person must. Raises LabError."""
        if self._live:
            return
        self._start(SUBSCRIBER)
        self._start(PUBLISHER)
        if self._fifo:
            self._treatments.scan({CLIENTS.name: self._fifo})

    def _start(self, name: str) -> None:
        client = self._live[name] = PrintedClient(name, self.interpreter, self._environment(name))
        self._until(lambda: client.pid in self._pids, f"The printed {name} has no subscription")

    def send(self, first: int, count: int, interval_ns: int, qos: int, form: str) -> list[tuple[int, int]]:
        """Have the publisher send; return (sequence, ns since 1970) of each message once all have left."""
        publisher = self._live[PUBLISHER]
        publisher.write(f"{first} {count} {interval_ns / 1e9} {qos} {form}")
        return self._stamps(publisher, 10 * count * interval_ns)

    def answers(self) -> list[tuple[str, int]]:
        """Return (payload, ns since 1970) of each answer since the last call, as the subscriber stamped it."""
        self._live[SUBSCRIBER].ask()
        return self._stamps(self._live[SUBSCRIBER])

    def scan(self) -> None:
        """Have both read while they run, at the end of a repetition."""
        scan = self._treatments.scan({CLIENTS.name: self._fifo})
        self._scans.append(scan)
        subscriber = self._live[SUBSCRIBER]
        life_ns = perf_counter_ns() - subscriber.started_ns
        for one in _each([scan] if scan else []):
            if one["pid"] == subscriber.pid:
                self._runnable.append(round((one["cpu_ns"] + (one["cpu_wait_ns"] or 0)) / life_ns, 3))

    def conclude(self) -> None:
        """End both if each repetition has its own."""
        if self._parameters.life == REPETITION:
            self.end()

    def end(self) -> None:
        for client in self._live.values():
            client.end()
        self._live = {}

    def judge_clients(self) -> Iterator[Treatment]:
        """Yield what the live processes show of the clients, from the scans at the end of each repetition."""
        if not self._scans:
            return
        if missing := unverified(self._scans, self._treatments.fault):
            yield from missing
            return
        p, scans = self._parameters, [scan for scan in self._scans if scan is not None]
        policies = [thread["scheduling"] for one in _each(scans) for thread in one["threads"]]
        yield compared("clients scheduling policy", policy(self._fifo), policies or "not running")
        yield from judge_permission(scans, CLIENTS.name, p.priority_controller)
        yield judge_nodelay(scans, CLIENTS.name, p.tcp_nodelay, p.broker_port)
        yield compared("clients' threads", "2 each", [f"{len(one['threads'])} each" for one in _each(scans)])
        sockets = (mqtt_sockets([scan], CLIENTS.name, (p.broker_port,)) for scan in scans)
        yield compared("clients' connections", "2", (str(len(each)) for each in sockets))
        yield judge_path(p, scans, CLIENTS)
        yield self._judge_receiver()
        lives = len(scans) if p.life == REPETITION else 1
        yield compared("client processes", str(2 * lives), str(len(self._pids)))
        versions = sorted({f"Python {report['python']}, paho {report['paho']}" for report in self._reports})
        same = all(version.startswith(f"Python {p.python}.") for version in versions)
        note = "" if same else "this image has no Python 2.7: O has the interpreter's switch interval of 5 ms in it"
        yield Treatment("clients' interpreter", f"Python {p.python}", "; ".join(versions), same, False, note)
        yield self._judge_packets()

    def _judge_receiver(self) -> Treatment:
        spins = self._parameters.receiver == SPIN
        bound = f"{'at least' if spins else 'below'} {LEAST_SPIN:.0%}"
        wanted = f"{self._parameters.receiver}: on a processor or waiting for one {bound}"
        good = all((share >= LEAST_SPIN) == spins for share in self._runnable)
        shares = f"{min(self._runnable):.0%} to {max(self._runnable):.0%} of its life"
        return Treatment("receiver", wanted, shares, good)

    def _environment(self, name: str) -> dict[str, str]:
        p = self._parameters
        qos = subscription_qos(p.qos_legs, max(p.qos)) if name == SUBSCRIBER else 0
        return {
            **self._broker(),
            "TCP_NODELAY": on_off(p.tcp_nodelay),
            "QOS": str(min(qos, max(BROKERS[p.broker].qos))),
            "RECEIVER": p.receiver,
            "PYTHONPATH": os.environ.get("PRINTED_PAHO", "") if self.interpreter.endswith("2.7") else "",
        }

    def _stamps(self, client: PrintedClient, more_ns: int = 0) -> list[Any]:
        self._until(lambda: client.lines, f"The printed {client.name} reports nothing", more_ns)
        stamps: list[Any] = client.lines.pop(0)["stamps"]
        return stamps

    def _until(self, done: Callable[[], object], problem: str, more_ns: int = 0) -> None:
        end_ns = perf_counter_ns() + START_TIMEOUT_NS + more_ns
        while not done():
            if perf_counter_ns() > end_ns:
                raise MachineError(f"{problem} within {(START_TIMEOUT_NS + more_ns) / 1e9:.0f} s.", "Repeat the run.")
            self.wait(perf_counter_ns() + STEP_NS)

    def _read(self) -> None:
        for client in self._live.values():
            for line in client.read():
                (self._reports if "granted" in line else client.lines).append(line)


def _each(scans: Iterable[Scan]) -> Iterator[dict[str, Any]]:
    """Yield each live process of the clients in each scan."""
    for scan in scans:
        yield from processes(scan, CLIENTS.name)
