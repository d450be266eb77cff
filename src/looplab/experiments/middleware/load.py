"""The load of one repetition: a plan divided among the processes of devices, and what became of each request."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from looplab.experiments.middleware.devices import DevicePlan
from looplab.experiments.middleware.document import Second
from looplab.system.histogram import Histogram

SECOND_NS = 1_000_000_000
END_TIMEOUT_S = 60.0
# A service accepts at most 64 KiB a request (json_service.py), which this many entries do not exceed.
AT_ONCE = 20


class Requests:
    """What became of every request of a plan, counted by the second it was due in; times in ns from the start.

    `in_time` are the successes before the plan's end, `acknowledged` (device, number) of all successes.
    """

    def __init__(self, plan: DevicePlan) -> None:
        self._plan = plan
        self._due_ns = {device: plan.due_ns(device) for device in plan.numbers}
        seconds = -(-plan.end_ns // SECOND_NS)
        self._counts = {name: [0] * seconds for name in ("due", "sent", "succeeded", "failed")}
        self._responses = [Histogram() for _ in range(seconds)]
        self._free_ns = dict.fromkeys(plan.numbers, 0)
        self.times = {name: Histogram() for name in ("response", "sent_response", "send_lateness")}
        self.failed_by: Counter[str] = Counter()
        self.acknowledged: set[tuple[int, int]] = set()
        self.in_time = 0
        self._first_ns: list[int] = []
        for dues_ns in self._due_ns.values():
            for due_ns in dues_ns:
                self._counts["due"][due_ns // SECOND_NS] += 1

    def sent(self, device: int, number: int, sent_ns: int) -> None:
        """Count a request that left."""
        due_ns = self._due_ns[device][number]
        self._counts["sent"][due_ns // SECOND_NS] += 1
        if not number:
            self._first_ns.append(sent_ns)
        # A device that waited for its last answer is late for that reason, not because its process is slow.
        if due_ns >= self._free_ns[device]:
            self.times["send_lateness"].add(sent_ns - due_ns)

    def ended(self, device: int, number: int, sent_ns: int, received_ns: int, cause: str) -> None:
        """Count a request that left and ended; `cause` is "" for a success."""
        self.sent(device, number, sent_ns)
        self._free_ns[device] = received_ns
        due_ns = self._due_ns[device][number]
        second = due_ns // SECOND_NS
        self._counts["failed" if cause else "succeeded"][second] += 1
        if cause:
            self.failed_by[cause] += 1
        else:
            self._responses[second].add(received_ns - due_ns)
            self.acknowledged.add((device, number))
            self.in_time += received_ns <= self._plan.end_ns
            self.times["response"].add(received_ns - due_ns)
            self.times["sent_response"].add(received_ns - sent_ns)

    @property
    def start_share(self) -> float:
        """The time between the first requests of the first and of the last device, as a share of the period."""
        return (max(self._first_ns) - min(self._first_ns)) / self._plan.period_ns if self._first_ns else 0.0

    @property
    def succeeded(self) -> int:
        """The successes so far."""
        return sum(self._counts["succeeded"])

    def ended_of(self, seconds: range) -> list[Second]:
        """Return what has ended by now of what was due in these seconds."""
        fates = ((at, self._counts["succeeded"][at], self._counts["failed"][at]) for at in seconds)
        return [Second(at, due=good + bad, succeeded=good, failed=bad) for at, good, bad in fates]

    def seconds(self, cpu_s: Mapping[int, float]) -> list[Second]:
        """Return a row for each second, at whose begin the CPU time was `cpu_s`; what has no end is unfinished."""
        return [self._second(second, cpu_s) for second in range(len(self._responses))]

    def _second(self, second: int, cpu_s: Mapping[int, float]) -> Second:
        counts = {name: by_second[second] for name, by_second in self._counts.items()}
        unfinished = counts["due"] - counts["succeeded"] - counts["failed"]
        begun_s, ended_s = cpu_s.get(second), cpu_s.get(second + 1)
        cpu_us = None if begun_s is None or ended_s is None else round((ended_s - begun_s) * 1e6)
        # The quantiles are NaN if no request was answered.
        p50, p99 = (
            None if math.isnan(one) else round(one / 1000, 3)
            for one in self._responses[second].quantiles_ns((0.5, 0.99))
        )
        return Second(second, **counts, unfinished=unfinished, response_p50_us=p50, response_p99_us=p99, cpu_us=cpu_us)


class DeviceProcess(Protocol):
    """One process of devices."""

    def ask(self, what: str, body: Mapping[str, Any] | None = None, timeout_s: float = 10.0) -> Any:
        """Return its answer. Raises LabError."""


class DeviceLoad:
    """All processes of devices; each has a slice of a plan's devices, at least one."""

    def __init__(self, processes: Sequence[DeviceProcess]) -> None:
        self._processes = processes
        self._running: Sequence[DeviceProcess] = []
        # How many requests each running process has reported.
        self._reported: list[int] = []

    def hand_out(self, entries: Sequence[Mapping[str, Any]]) -> None:
        """Give every process what its devices need to be known, which may be any of them."""
        for one in self._processes:
            for at in range(0, len(entries), AT_ONCE):
                one.ask("entries", {"first": at, "entries": entries[at : at + AT_ONCE]})

    def begin(self, system: str, plan: DevicePlan) -> Requests:
        """Start the devices; return what `progress` and `end` fill in."""
        parts = plan.slices(len(self._processes))
        self.requests = Requests(plan)
        self._running = self._processes[: len(parts)]
        self._reported = [0] * len(parts)
        for one, part in zip(self._running, parts, strict=True):
            one.ask("begin", {"system": system, "plan": vars(part)})
        return self.requests

    def progress(self) -> tuple[float, int]:
        """Count what has ended; return the seconds since the start, and how many devices still run."""
        answers = [one.ask("progress") for one in self._running]
        self._count(answers)
        return min(answer["now_ns"] for answer in answers) / 1e9, sum(answer["left"] for answer in answers)

    def end(self) -> tuple[list[str], dict[str, Any]]:
        """Stop every device; return what is wrong with the count of requests, and what the processes used."""
        answers = [one.ask("end", timeout_s=END_TIMEOUT_S) for one in self._running]
        self._count(answers)
        for answer in answers:
            for request in answer["waiting"]:
                self.requests.sent(*request)
        wrong = [
            f"process {number + 1} of the devices ended {answer['count']} requests, and {reported} were reported"
            for number, (answer, reported) in enumerate(zip(answers, self._reported, strict=True))
            if answer["count"] != reported
        ]
        shares = [answer["processor_share"] for answer in answers]
        return wrong, {
            "drops": sum(answer["drops"] for answer in answers),
            "processor_share": None if None in shares else max(shares),
            "load_memory_bytes": sum(answer["memory_bytes"] for answer in answers),
        }

    def _count(self, answers: Iterable[Mapping[str, Any]]) -> None:
        for number, answer in enumerate(answers):
            self._reported[number] += len(answer["ended"])
            for request in answer["ended"]:
                self.requests.ended(*request)
