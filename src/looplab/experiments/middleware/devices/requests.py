"""What one process of devices does in one repetition, and what becomes of its requests.

They are counted by the second they were due in, never kept one by one.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from looplab.experiments.middleware.histogram import Histogram

SECOND_NS = 1_000_000_000
SUCCEEDED = "succeeded"


@dataclass(frozen=True)
class Plan:
    """One repetition: devices number `first` up to `first + devices`, each posting every `period_ns`.

    `routes` gives the address (http://host:port) for the longest beginning of a path that it names. The load is that
    of the `seconds` after the warm-up; what is not answered `deadline_ns` after its end is unfinished.
    """

    name: str
    first: int
    devices: int
    routes: Mapping[str, str]
    certificate: str
    period_ns: int
    warm_up_ns: int
    load_ns: int
    deadline_ns: int
    payload_bytes: int
    drop_probability: float
    seed: int

    def offset_ns(self, device: int) -> int:
        """Return when a device's first request is due, from the start: at random in the first period."""
        return Random(f"{self.seed} {device}").randrange(self.period_ns)

    def due_ns(self, device: int, number: int) -> int:
        """Return when a device's request is due, from the start."""
        return self.offset_ns(device) + number * self.period_ns

    def loading(self, device: int) -> range:
        """Return the numbers of a device's requests that are due in the load, after the warm-up."""
        offset_ns = self.offset_ns(device)
        first = -(-(self.warm_up_ns - offset_ns) // self.period_ns)
        last = -(-(self.warm_up_ns + self.load_ns - offset_ns) // self.period_ns)
        return range(max(0, first), last)


class RequestCounts:
    """Counts of one repetition; times in ns from its start. `failures` are (device, number) of the load's failures."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        seconds = -(-(plan.warm_up_ns + plan.load_ns) // SECOND_NS)
        self._counts = {name: [0] * seconds for name in ("due", "sent", SUCCEEDED, "failed")}
        self._responses: dict[int, Histogram] = {}
        self.times = {name: Histogram() for name in ("response", "sent_response", "send_lateness", "authorise")}
        self.failed_by: Counter[str] = Counter()
        self.failures: list[tuple[int, int]] = []
        self.drops = self.refreshes = self.in_time = 0
        for device in self.devices():
            for due_ns in range(plan.offset_ns(device), plan.warm_up_ns + plan.load_ns, plan.period_ns):
                self._counts["due"][due_ns // SECOND_NS] += 1

    def devices(self) -> range:
        """Return the numbers of this process's devices."""
        return range(self._plan.first, self._plan.first + self._plan.devices)

    def sent(self, due_ns: int, sent_ns: int, idle: bool) -> None:
        """Count a request that leaves now; `idle` if the device was waiting for its due time."""
        self._counts["sent"][due_ns // SECOND_NS] += 1
        # A device that is late because of its last answer says nothing about the process.
        if idle and self._loading(due_ns):
            self.times["send_lateness"].add(sent_ns - due_ns)

    def ended(self, device: int, number: int, times_ns: tuple[int, int, int], cause: str) -> None:
        """Count the end of a request, by (due, sent, received); `cause` is "" for a success."""
        due_ns, sent_ns, received_ns = times_ns
        second = due_ns // SECOND_NS
        if cause:
            self._counts["failed"][second] += 1
            if self._loading(due_ns):
                self.failed_by[cause] += 1
                self.failures.append((device, number))
            return
        self._counts[SUCCEEDED][second] += 1
        self._responses.setdefault(second, Histogram()).add(received_ns - due_ns)
        if self._loading(due_ns):
            self.in_time += received_ns <= self._plan.warm_up_ns + self._plan.load_ns
            self.times["response"].add(received_ns - due_ns)
            self.times["sent_response"].add(received_ns - sent_ns)

    def seconds(self, ended_ns: int = 0) -> list[dict[str, Any]]:
        """Return a row for each second; with `ended_ns` what has no fate by then is unfinished."""
        rows = []
        for second in range(len(self._counts["due"])):
            row: dict[str, Any] = {name: counts[second] for name, counts in self._counts.items()}
            past = ended_ns >= (second + 1) * SECOND_NS
            row["unfinished"] = row["due"] - row[SUCCEEDED] - row["failed"] if past else 0
            rows.append({"second": second, **row})
        return rows

    def drain(self) -> dict[str, Any]:
        """Return the responses by second and the failures since the last call, and forget them.

        What a process holds therefore does not grow with its run, apart from four counts a second.
        """
        responses = {str(second): histogram.as_json() for second, histogram in self._responses.items()}
        failures, self.failures, self._responses = self.failures, [], {}
        return {"responses": responses, "failures": failures}

    def _loading(self, due_ns: int) -> bool:
        return due_ns >= self._plan.warm_up_ns
