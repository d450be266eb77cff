"""What is measured of a middleware started fresh: one repetition of a cell."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from looplab.errors import LabError, MachineError
from looplab.experiments.middleware import LoadCell
from looplab.experiments.middleware.devices import DevicePlan
from looplab.experiments.middleware.document import READ_BACK, Trial
from looplab.experiments.middleware.load import Requests
from looplab.experiments.middleware.parameters import LOAD, MiddlewareParameters
from looplab.experiments.middleware.parts import MiddlewareParts, Snapshot
from looplab.experiments.middleware.systems import client_of
from looplab.system.histogram import Histogram

SCAN_S = 0.2
# The writer lags behind. The database is read until it has all messages, or has got none for SETTLE_S.
SETTLE_S = 3.0
READ_S = 0.5

# So many devices post again as soon as they have an answer. Together they ask for more than the middleware answers.
# More devices would only wait longer, beyond their deadline.
LIMIT_DEVICES = 50


@dataclass
class Measurement:
    """One repetition of a cell, which fills its `trial`; `name` begins the names of its messages.

    `second` is called after each second of its load with what is known by then.
    """

    p: MiddlewareParameters
    parts: MiddlewareParts
    trial: Trial
    name: str
    second: Callable[[Trial], None]

    def run(self) -> Trial:
        """Return what was measured."""
        p, parts, cell, trial = self.p, self.parts, self.trial.cell, self.trial
        killed = parts.snapshot(cell).killed_for_memory
        try:
            way = parts.start(cell)
            ready = parts.snapshot(cell)
            self._warm_up(way)
        except LabError as error:
            return self.not_started(error, starved=parts.snapshot(cell).killed_for_memory > killed)
        requests = parts.load.prepare(p.system, self._plan(self.name, way, p.seconds))
        begun = parts.snapshot(cell)
        self._watch(requests, self._show)
        ended = parts.snapshot(cell)
        trial.processor_share = parts.load.end()
        self._take(requests, [ready, begun, ended, parts.snapshot(cell)])
        return trial

    def not_started(self, error: LabError, starved: bool) -> Trial:
        """Return a repetition whose middleware did not get ready; for lack of memory (`starved`) it is a result."""
        trial, nothing = self.trial, Requests(self._plan(self.name, {"routes": {}, "certificate": ""}, self.p.seconds))
        trial.started, trial.loaded, trial.dead = False, nothing.seconds, [error.message]
        trial.out_of_memory, trial.faults = starved, [] if starved else [error.message]
        return trial

    def _plan(self, name: str, way: Mapping[str, Any], seconds: int) -> DevicePlan:
        return self.p.plan(name, self.trial.cell.devices, way, seconds, seed=self.trial.repetition)

    def _warm_up(self, way: Mapping[str, Any]) -> None:
        """Ask the three published requests, or load the middleware until every request has ended. Raises LabError."""
        # What a load posts is found by the beginning of its name.
        p, parts, name = self.p, self.parts, f"warm-{self.name}"
        if p.warm_up != LOAD:
            parts.warm_up(self.trial.cell, name)
            return
        requests = parts.load.prepare(p.system, self._plan(name, way, p.warm_up_s))
        self._watch(requests, lambda _requests, _passed: None)
        parts.load.end()
        self.trial.warm_up = requests.seconds

    def _watch(self, requests: Requests, show: Callable[[Requests, int], None]) -> None:
        """Begin a load, wait until each second of it has passed, note the middleware's CPU time in it, and show it."""
        used_s: float | None = None
        self.parts.load.begin()
        for at in range(len(requests.seconds) + 1):
            while (now_s := self.parts.load.progress()) < at:
                time.sleep(max(0.01, min(SCAN_S, at - now_s)))
            before_s, used_s = used_s, self.parts.cpu_s(self.trial.cell)
            if before_s is not None and used_s is not None:
                requests.seconds[at - 1].cpu_us = round((used_s - before_s) * 1e6)
            if at:
                show(requests, at)

    def _show(self, requests: Requests, passed: int) -> None:
        """Show what has ended of the seconds that have passed; what waits has no fate yet."""
        trial = self.trial
        trial.loaded = [replace(one, due=one.succeeded + one.failed) for one in requests.seconds[:passed]]
        trial.processed, trial.histograms = requests.in_time, {"response": requests.times["response"]}
        self.second(trial)

    def _take(self, requests: Requests, snapshots: Sequence[Snapshot]) -> None:
        """Take what services used when they were ready, the load began and ended, and the last answer came."""
        trial = self.trial
        ready, begun, ended, last = snapshots
        trial.loaded, trial.processed, trial.failed_by = requests.seconds, requests.in_time, requests.failed_by
        trial.histograms = {**requests.times, "server": server_times(last.durations_us - begun.durations_us)}
        trial.read_back = self._read_back(requests.acknowledged)
        trial.under_test = services = self.parts.system.services
        trial.cpu_s = {name: max(0.0, used_s - begun.cpu_s[name]) for name, used_s in ended.cpu_s.items()}
        trial.memory_start_bytes, trial.memory_end_bytes = ready.memory_bytes, last.memory_bytes
        used = {name: begun.processors.get(name, set()) for name in services}
        trial.misplaced = misplaced(used, self.parts.processors)
        trial.dead = sorted({one for snapshot in snapshots for one in snapshot.dead})
        trial.out_of_memory = last.killed_for_memory > ready.killed_for_memory
        # A lack of memory is a result and makes no repetition invalid.
        trial.faults = [] if trial.out_of_memory else [*trial.dead]

    def _read_back(self, posted: set[str]) -> dict[str, int] | None:
        """Return what the database holds of the posted messages, by READ_BACK; None if it cannot be read."""
        parts, stored, grew_s = self.parts, Counter[str](), time.monotonic()
        names = client_of(parts.system.name).stored
        while len(stored) < len(posted) and time.monotonic() - grew_s < SETTLE_S:
            try:
                read = Counter(one for one in names(parts.hosts(), parts.secrets, f"{self.name}-") if one in posted)
            except (OSError, LabError):
                return None
            if len(read) > len(stored):
                grew_s = time.monotonic()
            stored = read
            time.sleep(READ_S)
        duplicates = sum(1 for count in stored.values() if count > 1)
        counts = (len(posted), len(stored) - duplicates, len(posted) - len(stored), duplicates)
        return dict(zip(READ_BACK, counts, strict=True))


def server_times(durations_us: Mapping[int, int]) -> Histogram:
    """Return the times that the middleware itself took for requests, which `durations_us` counts."""
    times = Histogram()
    for value_us, count in durations_us.items():
        times.add(value_us * 1000, count)
    return times


def misplaced(used: Mapping[str, set[int]], wanted: set[int]) -> list[str]:
    """Return the services that ran on other processors than wanted; one that has ended runs on none."""
    return [name for name, processors in used.items() if processors and processors != wanted]


def largest(cells: list[LoadCell]) -> LoadCell:
    """Return where the limit is measured: one node, in a container if there is one, on the most processors."""
    return max(cells, key=lambda cell: (cell.container, not cell.balancer, -cell.nodes, cell.cores))


def measure_limit(p: MiddlewareParameters, parts: MiddlewareParts, cell: LoadCell, name: str) -> float:
    """Return the requests a second that succeed when the devices ask for more than the middleware answers.

    Raises LabError if it answers none.
    """
    p = replace(p, seconds=8, warm_up=LOAD, warm_up_s=4, period_ms=2, deadline_ms=5000, drop_probability=0.0)
    trial = Trial(cell=LoadCell.keyed(*cell.key[:-1], LIMIT_DEVICES), repetition=0)
    Measurement(p, parts, trial, name, lambda _running: None).run()
    if not trial.processed:
        why = "".join(f" {one}" for one in trial.dead)
        raise MachineError(
            f"The middleware answered none of its devices.{why}",
            "Give DEVICES as numbers, and see `docker compose logs` of the node.",
        )
    return trial.processed / p.seconds
