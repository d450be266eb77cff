"""Whether a run's parts were as wanted: the same in every cell, on their machines, commits on disk."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from looplab.experiments.twin import NAME
from looplab.experiments.twin.database import DatabaseFacts
from looplab.experiments.twin.host import MIB, Sizes, broker_machines
from looplab.experiments.twin.parameters import ALL, TwinParameters
from looplab.treatments.judgement import Treatment, judge_nodelay, judge_policy, judge_process, on_off, unread
from looplab.treatments.loads import loads
from looplab.treatments.scans import Scan, processes

NO_LIMIT = "no limit"
_ROLES = ("broker", "instance", "controller")


def judge(
    parameters: TwinParameters, good: Sequence[Scan], database: DatabaseFacts, started: Collection[str]
) -> list[Treatment]:
    """Judge every treatment of a run from the scans taken before and after each sending."""
    ports = {port for _host, port in used_hosts(parameters)}
    return [
        *(judge_process(good, role) for role in _ROLES),
        *(judge_policy(good, role, 0) for role in _ROLES),
        *([] if parameters.device_workers else [judge_nodelay(good, "controller", parameters.tcp_nodelay, *ports)]),
        judge_nodelay(good, "broker", parameters.tcp_nodelay, *ports),
        *_machines(parameters, good),
        *_confined(parameters, good),
        *_database(database, started),
        *(load.judge(good, wanted=False) for load in loads().values()),
    ]


def judge_apart(
    cells: Sequence[Mapping[str, Any]], database: DatabaseFacts, started: Collection[str]
) -> list[Treatment]:
    """Judge what the parts show of themselves where no process sees those of another: `cells` as run.json has them."""
    restarts = sum(cell["worker_restarts"] for cell in cells)
    same = "the same in every cell"
    return [
        Treatment("instance workers", same, f"restarted {restarts} x" if restarts else same, not restarts),
        *_database(database, started),
        unread(),
    ]


def judge_device_workers(p: TwinParameters, cells: Sequence[Sequence[Mapping[str, Any]]]) -> list[Treatment]:
    """Judge by what the workers of each cell report whether all were there to the end, and how they ran."""
    if not cells:
        return []
    all_workers = [worker for cell in cells for worker in cell]
    fallen = sorted({worker["host"] for worker in all_workers if worker["fault"]})
    hosts = ", ".join(sorted({worker["host"] for worker in all_workers}))
    wanted = f"{p.device_workers} to the end of every cell"
    found = f"fell: {', '.join(fallen)}" if fallen else wanted
    states = {on_off(state) for worker in all_workers for state in worker["tcp_nodelay"] or ()}
    policies = sorted({str(worker["scheduling"]) for worker in all_workers})
    nodelay = ", ".join(sorted(states)) or "no connection"
    return [
        Treatment("device workers", wanted, found, not fallen, note=f"on {hosts}"),
        Treatment("devices TCP_NODELAY", on_off(p.tcp_nodelay), nodelay, nodelay == on_off(p.tcp_nodelay)),
        Treatment("devices scheduling policy", "SCHED_OTHER", ", ".join(policies), policies == ["SCHED_OTHER"]),
    ]


def _database(database: DatabaseFacts, started: Collection[str]) -> list[Treatment]:
    same = "the same in every cell"
    restarted = Treatment("database process", same, same if len(started) == 1 else "restarted", len(started) == 1)
    return [_committed(database), restarted]


def _machines(parameters: TwinParameters, scans: Sequence[Scan]) -> list[Treatment]:
    """Judge processors, memory and files of each broker's machine; none where the brokers are not the lab's own."""
    if parameters.broker_hosts:
        return []
    judged = []
    for host, sizes in broker_machines(parameters).items():
        each = [[one for one in processes(scan, "broker") if one["container"]["hostname"] == host] for scan in scans]
        seen = [process for there in each for process in there]
        found = {_processors(process) for process in seen}
        memory = {_memory(process["container"]["memory_limit"]) for process in seen}
        judged.append(_machine(f"{host} processors", _wanted_processors(sizes), found))
        judged.append(_machine(f"{host} memory", _memory(sizes and sizes.memory_bytes), memory))
        # A broker writes its file within a second, which may be after the first scan.
        judged.append(_persistence(parameters, host, each[-1]))
    return judged


def _confined(parameters: TwinParameters, scans: Sequence[Scan]) -> list[Treatment]:
    """Judge whether the instance's workers, in `twin` the database too, had a broker's processors and no others."""
    if parameters.broker_hosts or parameters.confine != ALL:
        return []
    machines = {_set(process) for scan in scans for process in processes(scan, "broker")}
    judged = []
    for role, required in (("workers", True), ("database", False)):
        if required or parameters.scenario == NAME:
            found = {_set(process) for scan in scans for process in processes(scan, role)}
            note = "" if required or found <= machines else "only `./lab run` confines the database"
            wanted = f"processors {' or '.join(sorted(machines))}"
            seen = f"processors {' and '.join(sorted(found))}" if found else "not running"
            verified = bool(found) and found <= machines
            judged.append(Treatment(f"{role} within their machine", wanted, seen, verified, required, note))
    return judged


def _set(process: Mapping[str, Any]) -> str:
    return ",".join(map(str, sorted(process["cpus"])))


def _machine(what: str, wanted: str, sizes: set[str]) -> Treatment:
    seen = ", ".join(sorted(sizes)) or "not running"
    note = "" if seen == wanted else "only `./lab run` scales machines: with plain Compose leave MACHINE_SCALE empty"
    # A broker without limits may have any set of processors.
    unlimited = wanted == NO_LIMIT and bool(sizes) and all(word.startswith("set of") for word in sizes)
    return Treatment(what, wanted, seen, seen == wanted or unlimited, note=note)


def _wanted_processors(sizes: Sizes | None) -> str:
    return NO_LIMIT if sizes is None else f"set of {sizes.whole_cpus}"


def _processors(process: Mapping[str, Any]) -> str:
    """Return what confines a process: a quota, which nobody wants, or its set."""
    quota = process["container"]["cpu_limit"]
    return f"set of {len(process['cpus'])}" if quota is None else f"quota {quota:g}"


def _memory(limit: int | None) -> str:
    return NO_LIMIT if limit is None else f"{limit / MIB:g} MiB"


def _persistence(parameters: TwinParameters, host: str, brokers: Sequence[Mapping[str, Any]]) -> Treatment:
    """Judge whether each broker of a machine keeps its queue in a file, by the file."""
    files = {file for process in brokers for file in process["files"]}
    there = {f"mosquitto/data/{port}/mosquitto.db" in files for at, port in used_hosts(parameters) if at == host}
    wanted = on_off(parameters.persistence)
    found = on_off(there.pop()) if len(there) == 1 else "on for some of its brokers"
    return Treatment(f"{host} persistence", wanted, found, found == wanted)


def used_hosts(parameters: TwinParameters) -> list[tuple[str, int]]:
    """Return host and port of every broker of a run, once each."""
    return list(dict.fromkeys(place for cell in parameters.cells for place in parameters.hosts(cell)))


def _committed(database: DatabaseFacts) -> Treatment:
    """Judge whether a confirmed commit is on disk."""
    settings = f"fsync {database.fsync}, synchronous_commit {database.synchronous_commit}"
    wanted = "fsync on, synchronous_commit on"
    return Treatment("commit on disk", wanted, settings, settings == wanted, note=f"PostgreSQL {database.version}")
