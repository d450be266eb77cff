"""The processes that drive the devices: one plan divided among them, what they count merged."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from looplab.experiments.middleware.devices.requests import Plan
from looplab.experiments.middleware.histogram import Histogram, merged

_TOTALS = ("in_time", "drops", "refreshes")
PROVISION_TIMEOUT_S = 600.0
END_TIMEOUT_S = 60.0
# A process takes requests of 64 KiB at most.
AT_ONCE = 20


class Process(Protocol):
    """One process of devices."""

    def ask(self, what: str, body: Mapping[str, Any] | None = None, timeout_s: float = 10.0) -> Any:
        """Return its answer. Raises LabError."""


class Load:
    """All processes of devices; each driver has a slice of a plan's devices, at least one.

    The first of `processes` makes the devices known. `drivers` are others where devices run on other hosts.
    """

    def __init__(self, processes: Sequence[Process], drivers: Sequence[Process] = ()) -> None:
        self._processes, self._drivers = processes, drivers or processes
        self._running: Sequence[Process] = []
        self._responses: dict[int, Histogram] = {}
        self._failures: list[list[int]] = []

    def provision(self, body: Mapping[str, Any]) -> None:
        """Have the first process make devices known to the middleware; drivers get the entries. Raises LabError."""
        first = self._processes[0]
        made = first.ask("provision", body, PROVISION_TIMEOUT_S)
        for one in self._drivers:
            if one is first:
                continue
            for at in range(0, len(made["entries"]), AT_ONCE):
                one.ask("entries", {"first": at, "entries": made["entries"][at : at + AT_ONCE]})

    def begin(self, system: str, plan: Plan) -> None:
        self._responses, self._failures = {}, []
        parts = slices(plan, len(self._drivers))
        self._running = self._drivers[: len(parts)]
        for one, part in zip(self._running, parts, strict=True):
            one.ask("begin", {"system": system, "plan": vars(part)})

    def progress(self) -> dict[str, Any]:
        """Return `now_ns` from the start, `left` devices, rows by `seconds`, the `response` so far."""
        answers = [one.ask("progress") for one in self._running]
        self._take(answers)
        return {
            "now_ns": min(answer["now_ns"] for answer in answers),
            "left": sum(answer["left"] for answer in answers),
            "seconds": _rows([answer["seconds"] for answer in answers]),
            "response": merged(Histogram.from_json(answer["response"]) for answer in answers),
        }

    def end(self) -> dict[str, Any]:
        """Stop every device and return what became of every request."""
        answers = [one.ask("end", timeout_s=END_TIMEOUT_S) for one in self._running]
        self._take(answers)
        shares = [answer["processor_share"] for answer in answers]
        failed_by = [answer["failed_by"] for answer in answers]
        times = answers[0]["histograms"]
        return {
            **{name: sum(answer[name] for answer in answers) for name in _TOTALS},
            "seconds": [{**row, **self._quantiles(row["second"])} for row in _rows([a["seconds"] for a in answers])],
            "histograms": {
                name: merged(Histogram.from_json(answer["histograms"][name]) for answer in answers) for name in times
            },
            "failed_by": {
                cause: sum(one.get(cause, 0) for one in failed_by)
                for cause in dict.fromkeys(cause for one in failed_by for cause in one)
            },
            "failures": self._failures,
            "next_number": {device: n for answer in answers for device, n in answer["next_number"].items()},
            "processor_share": None if None in shares else max(shares),
            "memory_bytes": sum(answer["memory_bytes"] for answer in answers),
        }

    def _take(self, answers: Iterable[Mapping[str, Any]]) -> None:
        """Keep what the processes forget once they have reported it."""
        for answer in answers:
            self._failures += answer["failures"]
            for second, document in answer["responses"].items():
                self._responses.setdefault(int(second), Histogram()).merge(Histogram.from_json(document))

    def _quantiles(self, second: int) -> dict[str, float]:
        responses = self._responses.get(second)
        if responses is None:
            return {}
        p50_ns, p99_ns = responses.quantiles_ns((0.5, 0.99))
        return {"response_p50_us": round(p50_ns / 1000, 3), "response_p99_us": round(p99_ns / 1000, 3)}


def slices(plan: Plan, processes: int) -> list[Plan]:
    """Return the plan of each process: its devices in turn, as equal in number as possible, never none."""
    each, more = divmod(plan.devices, processes)
    counts = [each + (number < more) for number in range(processes)]
    return [
        replace(plan, first=plan.first + sum(counts[:number]), devices=count)
        for number, count in enumerate(counts)
        if count
    ]


def _rows(by_process: Sequence[Sequence[Mapping[str, int]]]) -> list[dict[str, int]]:
    """Return the sum of the rows of all processes, by second."""
    return [
        {name: row[name] if name == "second" else sum(one[name] for one in rows) for name in row}
        for rows in zip(*by_process, strict=True)
        for row in rows[:1]
    ]
