"""One repetition of a cell: the middleware started fresh, warmed up, loaded, and its database read back."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any

from looplab.errors import LabError
from looplab.experiments.middleware import LoadCell
from looplab.experiments.middleware.devices.requests import Plan, RequestCounts
from looplab.experiments.middleware.document import ReadBack, Second, Trial
from looplab.experiments.middleware.histogram import Histogram
from looplab.experiments.middleware.parameters import MiddlewareParameters
from looplab.experiments.middleware.parts import Parts, Snapshot
from looplab.experiments.middleware.placement import of_node, others, shared
from looplab.experiments.middleware.systems import part

LOOK_S = 0.2
# The writer lags: the database is read until all is there, or nothing has come for so long.
SETTLE_S = 3.0
READ_S = 0.5
_SECOND_KEYS = {one.name for one in fields(Second)}

# Ready, at the beginning and the end of the load, after the last answer.
Snapshots = tuple[Snapshot, Snapshot, Snapshot, Snapshot]


class Measurement:
    """One repetition; `second` is called after each second of its load with what is known by then."""

    def __init__(
        self,
        p: MiddlewareParameters,
        parts: Parts,
        cell: LoadCell,
        repetition: int,
        name: str,
        second: Callable[[Trial], None],
    ) -> None:
        self._p, self._parts, self._cell, self._repetition = p, parts, cell, repetition
        self._name = name
        self._second = second
        self._cpu_s: dict[int, float] = {}

    def run(self) -> Trial:
        """Return what was measured. Raises LabError if the devices cannot be started."""
        p, parts, cell = self._p, self._parts, self._cell
        before = parts.shortage(cell)
        try:
            way = parts.start(cell, p)
        except LabError as error:
            return self.not_started(error, parts.starved(cell, before))
        ready = parts.snapshot(cell)
        plan = self._plan(way)
        parts.load.begin(p.system, plan)
        self._watch(0, p.warm_up_s)
        begun = parts.snapshot(cell)
        self._watch(p.warm_up_s, p.warm_up_s + p.seconds)
        after = parts.snapshot(cell)
        self._drain()
        ended = parts.load.end()
        last = parts.snapshot(cell)
        return self._trial(plan, ended, (ready, begun, after, last))

    def not_started(self, error: LabError, starved: bool) -> Trial:
        """Return a repetition whose middleware did not get ready, for lack of memory if `starved`."""
        plan = self._plan({"routes": {}, "certificate": ""})
        rows = RequestCounts(plan).seconds(plan.warm_up_ns + plan.load_ns)[self._p.warm_up_s :]
        due = sum(row["due"] for row in rows)
        return Trial(
            cell=self._cell,
            repetition=self._repetition,
            seconds=self._p.seconds,
            requests=due,
            unfinished=due,
            in_time=0,
            started=False,
            loaded=[self._row(row) for row in rows],
            dead=[error.message],
            out_of_memory=starved,
            faults=[] if starved else [error.message],
        )

    def _plan(self, way: Mapping[str, Any]) -> Plan:
        p = self._p
        return Plan(
            name=self._name,
            first=0,
            devices=self._cell.devices,
            routes=way["routes"],
            certificate=way["certificate"],
            period_ns=p.period_ms * 1_000_000,
            warm_up_ns=p.warm_up_s * 1_000_000_000,
            load_ns=p.seconds * 1_000_000_000,
            deadline_ns=p.deadline_ms * 1_000_000,
            payload_bytes=p.payload_bytes,
            drop_probability=p.drop_probability,
            seed=self._repetition,
        )

    def _watch(self, begin: int, end: int) -> None:
        """Wait from second `begin` of the plan to second `end`, and note the middleware's CPU time at each."""
        at = begin
        while True:
            progress = self._parts.load.progress()
            now_ns = progress["now_ns"]
            while at <= end and now_ns >= at * 1_000_000_000:
                if (used_s := self._parts.cpu_s(self._cell)) is not None:
                    self._cpu_s[at] = used_s
                if at > self._p.warm_up_s:
                    self._second(self._so_far(progress, at))
                at += 1
            if at > end:
                return
            time.sleep(max(0.01, min(LOOK_S, at - now_ns / 1e9)))

    def _so_far(self, progress: Mapping[str, Any], end: int) -> Trial:
        rows = [self._row(row) for row in progress["seconds"]][self._p.warm_up_s : end]
        totals = {name: sum(getattr(row, name) for row in rows) for name in ("succeeded", "failed")}
        return Trial(
            cell=self._cell,
            repetition=self._repetition,
            seconds=end - self._p.warm_up_s,
            requests=sum(totals.values()),
            histograms={"response": progress["response"]},
            **totals,
        )

    def _drain(self) -> None:
        """Wait until every device has ended its last request, at most the deadline."""
        end_s = time.monotonic() + self._p.deadline_ms / 1000
        while self._parts.load.progress()["left"] and time.monotonic() < end_s:
            time.sleep(LOOK_S)

    def _trial(self, plan: Plan, ended: Mapping[str, Any], snapshots: Snapshots) -> Trial:
        p, cell = self._p, self._cell
        ready, before, after, last = snapshots
        rows = [self._row(row) for row in ended["seconds"]]
        loaded = rows[p.warm_up_s :]
        totals = {name: sum(getattr(row, name) for row in loaded) for name in ("due", "succeeded", "failed")}
        histograms = {name: histogram for name, histogram in ended["histograms"].items() if name != "authorise"}
        # What the agents reported before belongs to the warm-up.
        histograms["server"] = server_times(after, last)
        wanted = {one for number in range(cell.nodes) for one in of_node(number, cell.cores, p.processors)}
        gone, starved = dead(snapshots), last.killed_for_memory > ready.killed_for_memory
        return Trial(
            cell=cell,
            repetition=self._repetition,
            seconds=p.seconds,
            requests=totals["due"],
            succeeded=totals["succeeded"],
            failed=totals["failed"],
            unfinished=totals["due"] - totals["succeeded"] - totals["failed"],
            histograms=histograms,
            failed_by=ended["failed_by"],
            read_back=self._read_back(plan, ended, totals["succeeded"]),
            under_test=self._parts.system.services,
            cpu_s={name: max(0.0, used - before.cpu_s.get(name, 0.0)) for name, used in after.cpu_s.items()},
            memory_start_bytes=ready.memory_bytes,
            memory_end_bytes=last.memory_bytes,
            wanted_processors={"middleware": sorted(wanted), "others": others(p.processors)},
            affinity=before.processors,
            shared=shared(cell.nodes, cell.cores, p.processors),
            processor_share=ended["processor_share"],
            load_memory_bytes=ended["memory_bytes"],
            in_time=ended["in_time"],
            drops=ended["drops"],
            refreshes=ended["refreshes"],
            warm_up=rows[: p.warm_up_s],
            loaded=loaded,
            dead=gone,
            out_of_memory=starved,
            faults=self._faults(plan, ended, totals, gone, starved),
        )

    def _row(self, row: Mapping[str, Any]) -> Second:
        second = int(row["second"])
        used = [self._cpu_s.get(second), self._cpu_s.get(second + 1)]
        cpu_us = None if None in used else round((used[1] - used[0]) * 1e6)  # type: ignore[operator]
        return Second(**{name: value for name, value in row.items() if name in _SECOND_KEYS}, cpu_us=cpu_us)

    def _faults(
        self,
        plan: Plan,
        ended: Mapping[str, Any],
        totals: Mapping[str, int],
        ended_services: list[str],
        out_of_memory: bool,
    ) -> list[str]:
        """Return what makes the repetition INVALID: a service that ended, two counts of one thing that differ."""
        finished = sum(1 for _ in finished_numbers(plan, ended["next_number"]))
        counted = totals["succeeded"] + totals["failed"]
        wrong = [] if finished == counted else [f"the devices ended {finished} requests and counted {counted}"]
        # To run out of memory is a result.
        return wrong if out_of_memory else [*wrong, *ended_services]

    def _read_back(self, plan: Plan, ended: Mapping[str, Any], posted: int) -> ReadBack | None:
        """Return what the database holds of the posted messages; None if it cannot be read."""
        failed = {(device, number) for device, number in ended["failures"]}
        acknowledged = {one for one in finished_numbers(plan, ended["next_number"]) if one not in failed}
        begun_s = grew_s = time.monotonic()
        seen = -1
        while time.monotonic() - grew_s < SETTLE_S:
            counts = dict.fromkeys(acknowledged, 0)
            try:
                rows = self._stored(plan.name)
                for one in rows:
                    if one in counts:
                        counts[one] += 1
            except (OSError, LabError):
                if time.monotonic() - begun_s > SETTLE_S:
                    return None
                time.sleep(READ_S)
                continue
            there = sum(1 for count in counts.values() if count)
            if there != seen:
                seen, grew_s = there, time.monotonic()
            if there == len(acknowledged):
                break
            time.sleep(READ_S)
        duplicates = sum(1 for count in counts.values() if count > 1)
        return ReadBack(posted, seen - duplicates, posted - seen, duplicates)

    def _stored(self, name: str) -> Iterable[tuple[int, int]]:
        parts = self._parts
        hosts = {host: one.address() for host, one in parts.data.items()}
        hosts["node"] = parts.used(self._cell)[0].address()
        for text in part(parts.system.name, "readback").stored(hosts, parts.secrets, f"{name}-"):
            device, _, number = text[len(name) + 1 :].partition("-")
            yield int(device), int(number)


def finished_numbers(plan: Plan, next_number: Mapping[str, int]) -> Iterable[tuple[int, int]]:
    """Yield (device, number) of the load's requests that ended, one way or the other."""
    for device, following in next_number.items():
        for number in plan.loading(int(device)):
            if number < following:
                yield int(device), number


def server_times(*snapshots: Snapshot) -> Histogram:
    """Return the times that the middleware itself took for the requests that ended before each snapshot."""
    times = Histogram()
    for snapshot in snapshots:
        for value_us, count in snapshot.durations_us.items():
            times.add(value_us * 1000, count)
    return times


def dead(snapshots: Snapshots) -> list[str]:
    """Return the services that ended during a repetition, were started again, or went with their node."""
    first = snapshots[0].pids
    gone = [
        f"{name} of {where}: gone"
        for snapshot in snapshots
        for where, name in first
        if (where, name) not in snapshot.pids and f"{where}: does not answer" not in snapshot.dead
    ]
    again = [
        f"{name} of {where}: started again"
        for snapshot in snapshots
        for (where, name), pid in snapshot.pids.items()
        if first.get((where, name), pid) != pid
    ]
    return sorted({*gone, *again, *(one for snapshot in snapshots for one in snapshot.dead)})
