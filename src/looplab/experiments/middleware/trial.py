"""What is measured of a middleware started fresh: one repetition of a cell, and the limit of this machine."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from looplab.errors import LabError, MachineError
from looplab.experiments.middleware import LoadCell
from looplab.experiments.middleware.devices import DevicePlan
from looplab.experiments.middleware.document import ReadBack, Trial
from looplab.experiments.middleware.load import SECOND_NS, DeviceLoad, Requests
from looplab.experiments.middleware.parameters import LOAD, TOGETHER, MiddlewareParameters
from looplab.experiments.middleware.parts import MiddlewareParts, OutOfMemory, Snapshot
from looplab.experiments.middleware.placement import of_node, shared
from looplab.experiments.middleware.systems import client_of
from looplab.system.histogram import Histogram

SCAN_S = 0.2
# The writer lags behind. The database is read until it has all messages, or has got none for SETTLE_S.
SETTLE_S = 3.0
READ_S = 0.5

# The names of messages of a warm-up begin so.
WARM = "warm-"

# These devices post again as soon as they have an answer. Together they ask for more than the middleware answers.
# More devices would only wait longer, beyond their deadline.
LIMIT_DEVICES, LIMIT_PERIOD_NS = 50, 2_000_000
LIMIT_WARM_UP_S, LIMIT_S = 4, 8
LIMIT_DEADLINE_NS = 5 * SECOND_NS


class Measurement:
    """One repetition of a cell; `second` is called after each second of its load with what is known by then."""

    def __init__(
        self,
        p: MiddlewareParameters,
        parts: MiddlewareParts,
        cell: LoadCell,
        repetition: int,
        name: str,
        second: Callable[[Trial], None],
    ) -> None:
        self._p, self._parts, self._cell, self._repetition = p, parts, cell, repetition
        self._name, self._second = name, second
        # The middleware's CPU time at the beginning of each second of the current plan.
        self._cpu_s: dict[int, float] = {}

    def run(self) -> Trial:
        """Return what was measured."""
        p, parts, cell = self._p, self._parts, self._cell
        try:
            way = parts.start(cell)
            ready = parts.snapshot(cell)
            warm = self._warmed(way) if p.warm_up == LOAD else {"asked": parts.warm_up(cell, f"{WARM}{self._name}")}
        except LabError as error:
            return self.not_started(error, starved=isinstance(error, OutOfMemory))
        begun = parts.snapshot(cell)
        requests = parts.load.begin(p.system, self._plan(way))
        self._watch(p.seconds, lambda at: self._second(self._so_far(requests, at)))
        ended = parts.snapshot(cell)
        self._drain()
        faults, used = parts.load.end()
        return self._trial(requests, faults, {**used, **warm}, [ready, begun, ended, parts.snapshot(cell)])

    def _warmed(self, way: Mapping[str, Any]) -> dict[str, Any]:
        """Load the middleware as the cell does, until every request has ended; return what a Trial has of it."""
        p, load = self._p, self._parts.load
        name = f"{WARM}{self._name}"
        requests = load.begin(p.system, p.plan(name, self._cell.devices, way, p.warm_up_s, seed=self._repetition))
        self._watch(p.warm_up_s, lambda _at: None)
        left = self._drain()
        load.end()
        return {"warm_up": requests.seconds(self._cpu_s), "backlog": left}

    def not_started(self, error: LabError, starved: bool) -> Trial:
        """Return a repetition whose middleware did not get ready, for lack of memory if `starved`."""
        nothing = Requests(self._plan({"routes": {}, "certificate": ""}))
        return Trial(
            cell=self._cell,
            repetition=self._repetition,
            started=False,
            loaded=nothing.seconds({}),
            dead=[error.message],
            out_of_memory=starved,
            faults=[] if starved else [error.message],
        )

    def _plan(self, way: Mapping[str, Any]) -> DevicePlan:
        return self._p.plan(self._name, self._cell.devices, way, self._p.seconds, seed=self._repetition)

    def _watch(self, end: int, passed: Callable[[int], None]) -> None:
        """Wait until second `end` of the plan; note the middleware's CPU time at each, and call `passed` after it."""
        self._cpu_s, at = {}, 0
        while True:
            now_s, _left = self._parts.load.progress()
            while at <= end and now_s >= at:
                if (used_s := self._parts.cpu_s(self._cell)) is not None:
                    self._cpu_s[at] = used_s
                if at:
                    passed(at)
                at += 1
            if at > end:
                return
            time.sleep(max(0.01, min(SCAN_S, at - now_s)))

    def _so_far(self, requests: Requests, end: int) -> Trial:
        loaded = requests.ended_of(range(end))
        return Trial(
            cell=self._cell,
            repetition=self._repetition,
            loaded=loaded,
            processed=requests.in_time,
            histograms={"response": requests.times["response"]},
        )

    def _drain(self) -> int:
        """Wait until every device has ended its last request, at most the deadline; return how many have not."""
        end_s = time.monotonic() + self._p.deadline_ms / 1000
        while (left := self._parts.load.progress()[1]) and time.monotonic() < end_s:
            time.sleep(SCAN_S)
        return left

    def _trial(
        self, requests: Requests, faults: Sequence[str], used: Mapping[str, Any], snapshots: Sequence[Snapshot]
    ) -> Trial:
        """Return it by what services used when they were ready, the load began and ended, the last answer came."""
        p, cell = self._p, self._cell
        ready, begun, ended, last = snapshots
        wanted = {one for number in range(cell.nodes) for one in of_node(number, cell.cores, p.processors)}
        gone, starved = dead(snapshots), last.killed_for_memory > ready.killed_for_memory
        return Trial(
            cell=cell,
            repetition=self._repetition,
            loaded=requests.seconds(self._cpu_s),
            processed=requests.in_time,
            histograms={**requests.times, "server": server_times(last.durations_us - begun.durations_us)},
            together=p.start == TOGETHER,
            start_share=requests.start_share,
            failed_by=requests.failed_by,
            read_back=self._read_back(requests.acknowledged),
            under_test=self._parts.system.services,
            cpu_s={name: max(0.0, used_s - begun.cpu_s[name]) for name, used_s in ended.cpu_s.items()},
            memory_start_bytes=ready.memory_bytes,
            memory_end_bytes=last.memory_bytes,
            wanted_processors=sorted(wanted),
            affinity={name: sorted(each) for name, each in begun.processors.items()},
            shared=shared(cell.nodes, cell.cores, p.processors),
            dead=gone,
            out_of_memory=starved,
            # A lack of memory is a result and makes no repetition invalid.
            faults=[*faults, *([] if starved else gone)],
            **used,
        )

    def _read_back(self, posted: set[tuple[int, int]]) -> ReadBack | None:
        """Return what the database holds of the posted messages; None if it cannot be read."""
        begun_s = grew_s = time.monotonic()
        stored: Counter[tuple[int, int]] | None = None
        while time.monotonic() - grew_s < SETTLE_S:
            try:
                read = Counter(one for one in self._stored() if one in posted)
            except (OSError, LabError):
                if time.monotonic() - begun_s > SETTLE_S:
                    return None
            else:
                if stored is None or len(read) != len(stored):
                    grew_s = time.monotonic()
                stored = read
                if len(stored) == len(posted):
                    break
            time.sleep(READ_S)
        if stored is None:
            return None
        duplicates = sum(1 for count in stored.values() if count > 1)
        return ReadBack(len(posted), len(stored) - duplicates, len(posted) - len(stored), duplicates)

    def _stored(self) -> Iterable[tuple[int, int]]:
        """Yield (device, number) of each message of this repetition in the database."""
        parts = self._parts
        for text in client_of(parts.system.name).stored(parts.hosts(), parts.secrets, f"{self._name}-"):
            device, _, number = text[len(self._name) + 1 :].partition("-")
            yield int(device), int(number)


def server_times(durations_us: Mapping[int, int]) -> Histogram:
    """Return the times that the middleware itself took for requests, which `durations_us` counts."""
    times = Histogram()
    for value_us, count in durations_us.items():
        times.add(value_us * 1000, count)
    return times


def dead(snapshots: Sequence[Snapshot]) -> list[str]:
    """Return the services that ended during a repetition, or went with their node."""
    gone = [
        f"{name} of {where}: gone"
        for snapshot in snapshots
        for where, name in snapshots[0].services - snapshot.services
        if f"{where}: does not answer" not in snapshot.dead
    ]
    return sorted({*gone, *(one for snapshot in snapshots for one in snapshot.dead)})


def largest(cells: list[LoadCell]) -> LoadCell:
    """Return where the limit is measured: one node, in a container if there is one, on the most processors."""
    return max(cells, key=lambda cell: (cell.container, not cell.balancer, -cell.nodes, cell.cores))


def measure_limit(parts: MiddlewareParts, cell: LoadCell, p: MiddlewareParameters, token: str) -> float:
    """Return the requests a second that succeed when more devices ask than the middleware answers. Raises LabError."""
    way, name = parts.start(cell), f"{token}-limit"
    parts.provision(cell, LIMIT_DEVICES, name)
    plan = replace(
        p.plan(name, LIMIT_DEVICES, way, LIMIT_WARM_UP_S + LIMIT_S),
        period_ns=LIMIT_PERIOD_NS,
        deadline_ns=LIMIT_DEADLINE_NS,
        drop_probability=0.0,
    )
    parts.load.begin(parts.system.name, plan)
    before_s, before = _succeeded_by(parts.load, LIMIT_WARM_UP_S)
    after_s, after = _succeeded_by(parts.load, LIMIT_WARM_UP_S + LIMIT_S)
    parts.load.end()
    if after <= before:
        raise MachineError(
            "The middleware answered none of its devices.",
            "Give DEVICES as numbers, and see `docker compose logs` of the node.",
        )
    return (after - before) / (after_s - before_s)


def _succeeded_by(load: DeviceLoad, until_s: float) -> tuple[float, int]:
    """Wait until `until_s` have passed; return the exact time in seconds, and the successes by then."""
    while (seconds := load.progress()[0]) < until_s:
        time.sleep(SCAN_S)
    return seconds, load.requests.succeeded
