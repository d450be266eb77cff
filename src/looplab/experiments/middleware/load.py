"""The load of one repetition: a plan divided among the processes of devices, and what became of each request."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from queue import SimpleQueue
from threading import Thread
from typing import Any

from looplab.errors import MachineError
from looplab.experiments.middleware.devices import DevicePlan
from looplab.experiments.middleware.document import Second
from looplab.system import own_process
from looplab.system.histogram import Histogram

SECOND_NS = 1_000_000_000
COMMAND = (sys.executable, "-m", "looplab.experiments.middleware.devices")


class Requests:
    """What became of every request of a plan, by the second it was due in; times in ns from the start.

    `in_time` are the successes before the plan's end, `acknowledged` the messages of all successes.
    """

    def __init__(self, plan: DevicePlan) -> None:
        self._plan = plan
        self._due_ns = {device: plan.due_ns(device) for device in plan.numbers}
        self.seconds = [Second() for _ in range(-(-plan.end_ns // SECOND_NS))]
        self._free_ns = dict.fromkeys(plan.numbers, 0)
        self.times = {name: Histogram() for name in ("response", "sent_response", "send_lateness")}
        self.failed_by: Counter[str] = Counter()
        self.acknowledged: set[str] = set()
        self.in_time = 0
        for dues_ns in self._due_ns.values():
            for due_ns in dues_ns:
                self.seconds[due_ns // SECOND_NS].due += 1

    def ended(self, device: int, number: int, sent_ns: int, received_ns: int, cause: str) -> None:
        """Count a request that ended; `cause` is "" for a success."""
        due_ns = self._due_ns[device][number]
        # A device that waited for its last answer is late for that reason, not because its process is slow.
        if due_ns >= self._free_ns[device]:
            self.times["send_lateness"].add(sent_ns - due_ns)
        self._free_ns[device] = received_ns
        second = self.seconds[due_ns // SECOND_NS]
        if cause:
            second.failed += 1
            self.failed_by[cause] += 1
        else:
            second.succeeded += 1
            second.response.add(received_ns - due_ns)
            self.acknowledged.add(self._plan.message(device, number))
            self.in_time += received_ns <= self._plan.end_ns
            self.times["response"].add(received_ns - due_ns)
            self.times["sent_response"].add(received_ns - sent_ns)


class DeviceLoad:
    """At most so many processes of devices; each has a slice of a plan's devices, at least one.

    `entries` have what each device needs to be known.
    """

    def __init__(self, processes: int) -> None:
        self._most = processes
        self.entries: Sequence[Mapping[str, Any]] = []
        self._running: list[subprocess.Popen[str]] = []

    def prepare(self, system: str, plan: DevicePlan) -> Requests:
        """Start the processes; return what `progress` and `end` fill in. Raises OSError if one does not start."""
        self.stop()
        self._requests = Requests(plan)
        self._reports = SimpleQueue[tuple[int, dict[str, Any]]]()
        slices = plan.slices(self._most)
        pipe = subprocess.PIPE
        self._running = [subprocess.Popen(COMMAND, stdin=pipe, stdout=pipe, text=True) for _ in slices]
        self._last: list[dict[str, Any]] = [{"now_ns": 0}] * len(slices)
        for process, part in zip(self._running, slices, strict=True):
            entries = self.entries[part.first : part.first + part.devices]
            order = {"system": system, "plan": vars(part), "entries": entries}
            print(json.dumps(order), file=process.stdin, flush=True)
        for process in self._running:
            assert process.stdout is not None
            process.stdout.readline()
        return self._requests

    def begin(self) -> None:
        """Have all devices begin."""
        self._readers = [Thread(target=self._read, args=one, daemon=True) for one in enumerate(self._running)]
        for process, reader in zip(self._running, self._readers, strict=True):
            assert process.stdin is not None
            process.stdin.close()
            reader.start()

    def progress(self) -> float:
        """Count what has ended; return the seconds since the start. Raises MachineError if a process has failed."""
        while not self._reports.empty():
            number, report = self._reports.get()
            self._last[number] = report
            for request in report["ended"]:
                self._requests.ended(*request)
        if any(process.poll() for process in self._running):
            raise MachineError("A process of devices has failed.", "See `docker compose logs` of the controller.")
        return float(min(report["now_ns"] for report in self._last) / 1e9)

    def end(self) -> float:
        """Wait until every device has its last answer; return the share of a processor that the busiest process used.

        Raises MachineError if a process has failed.
        """
        for process, reader in zip(self._running, self._readers, strict=True):
            reader.join()
            process.wait()
        self.progress()
        return float(max(report["processor_share"] for report in self._last))

    def stop(self) -> None:
        """End the processes that still run."""
        while self._running:
            own_process.end_child(self._running.pop(), timeout_s=5.0)

    def _read(self, number: int, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._reports.put((number, json.loads(line)))
