"""What a run has with CLIENTS=printed: the programs, their measurement, scans at them while they live, and verdicts."""

from collections.abc import Callable, Iterable, Iterator
from time import perf_counter_ns
from typing import Any

from looplab.experiments.loop import CLIENTS
from looplab.experiments.loop.parameters import REPETITION, Parameters
from looplab.experiments.loop.printed import SUBSCRIBER
from looplab.experiments.loop.printed.measurement import PrintedMeasurement
from looplab.experiments.loop.printed.programs import Programs
from looplab.experiments.loop.printed.wire import Wire
from looplab.experiments.loop.protocol import SPIN
from looplab.experiments.loop.treatments import judge_path, judge_permission
from looplab.run.accounting import Columns
from looplab.run.open_loop import Messages
from looplab.run.samples import ABSENT, SampleStore
from looplab.spec.brokers import BROKERS
from looplab.treatments.judgement import Treatment, judge_nodelay, unverified
from looplab.treatments.scans import Scan, TreatmentsClient, mqtt_sockets, processes

# A thread that spins is on a processor or waits for one for at least this share of its life; one that sleeps is not.
LEAST_SPIN = 0.6


class PrintedClients:
    """The clients of one run; each scan at them is taken while both programs run."""

    def __init__(self, parameters: Parameters, wait: Callable[[int], None]) -> None:
        self._parameters = parameters
        self._wire = Wire(parameters.broker_port)
        self._programs = Programs(parameters, self._wire, wait)
        self._treatments = TreatmentsClient([CLIENTS, BROKERS[parameters.broker].role])
        self._fifo = parameters.priority_controller if parameters.apply_priority else 0
        if self._fifo:
            self._programs.on_start = lambda: self._treatments.scan({CLIENTS.name: self._fifo})
        self._scans: list[Scan | None] = []
        # By scan: the share of its life that the subscriber was on a processor or waited for one.
        self._runnable: list[float] = []

    def measurement(
        self, store: SampleStore, requests: Messages, token: str, on_other: Callable[[bytes, bytes], None]
    ) -> PrintedMeasurement:
        return PrintedMeasurement(self._programs, store, requests, token, on_other, self._scan)

    def close(self) -> None:
        self._programs.close()
        self._wire.close()

    @property
    def granted(self) -> dict[str, int]:
        """The QoS that the broker granted, by topic; the highest of all processes."""
        granted: dict[str, int] = {}
        for report in self._programs.reports:
            for topic, qos in report["granted"].items():
                granted[topic] = max(qos, granted.get(topic, 0))
        return granted

    def judge_clients(self) -> Iterator[Treatment]:
        """Yield what the live processes show of the clients, from the scans at the end of each repetition."""
        if not self._scans:
            return
        if missing := unverified(self._scans, self._treatments.fault):
            yield from missing
            return
        p, scans = self._parameters, [scan for scan in self._scans if scan is not None]
        wanted = f"SCHED_FIFO {self._fifo}" if self._fifo else "SCHED_OTHER"
        yield _alike(
            "clients scheduling policy",
            wanted,
            (thread["scheduling"] for one in _each(scans) for thread in one["threads"]),
        )
        if p.priority_controller:
            yield from judge_permission(scans, CLIENTS.name, p.priority_controller)
        yield judge_nodelay(scans, CLIENTS.name, p.tcp_nodelay, p.broker_port)
        yield _alike("clients' threads", "2 each", (f"{len(one['threads'])} each" for one in _each(scans)))
        sockets = (mqtt_sockets([scan], CLIENTS.name, (p.broker_port,)) for scan in scans)
        yield _alike("clients' connections", "2", (str(len(each)) for each in sockets))
        yield judge_path(p, scans, CLIENTS)
        spins = f"{p.receiver}: on a processor or waiting for one " + (
            f"at least {LEAST_SPIN:.0%}" if p.receiver == SPIN else f"below {LEAST_SPIN:.0%}"
        )
        good = [(share >= LEAST_SPIN) == (p.receiver == SPIN) for share in self._runnable]
        shares = f"{min(self._runnable):.0%} to {max(self._runnable):.0%} of its life"
        yield Treatment("receiver", spins, shares, all(good))
        reports = self._programs.reports
        pids = {report["pid"] for report in reports}
        lives = len(scans) if p.life == REPETITION else 1
        yield Treatment("client processes", str(2 * lives), str(len(pids)), len(pids) == 2 * lives)
        versions = sorted({f"Python {report['python']}, paho {report['paho']}" for report in reports})
        same = all(version.startswith(f"Python {p.python}.") for version in versions)
        note = "" if same else "this image has no Python 2.7: O has the interpreter's switch interval of 5 ms in it"
        yield Treatment("clients' interpreter", f"Python {p.python}", "; ".join(versions), same, False, note)
        lacking = {"dropped": self._wire.dropped, "unstamped": self._wire.unstamped}
        words = ", ".join(f"{count} {name}" for name, count in lacking.items())
        yield Treatment("packets of the clients", "every one captured and stamped", words, not any(lacking.values()))

    def written(self, columns: Columns, rows: range) -> int:
        """Return of how many repetitions each message was answered, as the printed subscriber needs it."""
        received_ns, size = columns["client_received_ns"], self._parameters.messages
        return sum(ABSENT not in received_ns[row : row + size] for row in range(rows.start, rows.stop, size))

    def document(self) -> dict[str, Any]:
        """Return what run.json holds of the programs."""
        return {"printed_clients": {"programs": self._programs.reports, "runnable": self._runnable}}

    def _scan(self) -> None:
        scan = self._treatments.scan({CLIENTS.name: self._fifo})
        self._scans.append(scan)
        subscriber = self._programs.live[SUBSCRIBER]
        life_ns = perf_counter_ns() - subscriber.started_ns
        for one in _each([scan] if scan else []):
            if one["pid"] == subscriber.hellos[-1]["pid"]:
                self._runnable.append(round((one["cpu_ns"] + (one["cpu_wait_ns"] or 0)) / life_ns, 3))


def _each(scans: Iterable[Scan]) -> Iterator[dict[str, Any]]:
    """Yield each live process of the clients in each scan."""
    for scan in scans:
        yield from processes(scan, CLIENTS.name)


def _alike(what: str, wanted: str, every: Iterable[str]) -> Treatment:
    """Judge whether every one was found as wanted."""
    distinct = sorted(set(every))
    return Treatment(what, wanted, ", ".join(distinct) or "not running", distinct == [wanted])
