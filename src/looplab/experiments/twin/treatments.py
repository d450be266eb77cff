"""Whether a run's parts were as wanted: the same in every cell, on their machines, commits on disk."""

from collections.abc import Mapping, Sequence
from typing import Any

from looplab.experiments.twin.database import DatabaseFacts
from looplab.experiments.twin.host import GIGABYTES, broker_machines, whole_cpus
from looplab.experiments.twin.parameters import ALL, TwinParameters
from looplab.treatments.judgement import (
    Treatment,
    compared,
    judge_nodelay,
    judge_policy,
    judge_process,
    on_off,
    unread,
)
from looplab.treatments.loads import loads
from looplab.treatments.scans import Scan, processes

_ROLES = ("broker", "instance", "controller")
SAME = "the same in every cell"


def judge(parameters: TwinParameters, good: Sequence[Scan], database: Sequence[DatabaseFacts]) -> list[Treatment]:
    """Judge every treatment of a run from the scans and the facts taken before and after each sending."""
    ports = {port for _host, port in used_hosts(parameters)}
    return [
        *(judge_process(good, role) for role in _ROLES),
        *(judge_policy(good, role, 0) for role in _ROLES),
        *([] if parameters.device_workers else [judge_nodelay(good, "controller", parameters.tcp_nodelay, *ports)]),
        judge_nodelay(good, "broker", parameters.tcp_nodelay, *ports),
        *_machines(parameters, good),
        *_confined(parameters, good),
        *_database(database),
        *(load.judge(good, wanted=False) for load in loads().values()),
    ]


def judge_apart(cells: Sequence[Mapping[str, Any]], database: Sequence[DatabaseFacts]) -> list[Treatment]:
    """Judge what the parts show of themselves where no process sees those of another: `cells` as run.json has them."""
    restarts = sum(cell["worker_restarts"] for cell in cells)
    found = f"restarted {restarts} x" if restarts else SAME
    return [compared("instance workers", SAME, found), *_database(database), unread()]


def judge_device_workers(p: TwinParameters, cells: Sequence[Mapping[str, Any]]) -> list[Treatment]:
    """Judge by what the workers of each cell report whether all were there to the end, and how they ran."""
    all_workers = [worker for cell in cells for worker in cell.get("device_workers", ())]
    if not all_workers:
        return []
    fallen = {worker["host"] for worker in all_workers if worker["fault"]}
    hosts = ", ".join(sorted({worker["host"] for worker in all_workers}))
    wanted = f"{p.device_workers} to the end of every cell"
    found = f"fell: {', '.join(sorted(fallen))}" if fallen else wanted
    states = (on_off(state) for worker in all_workers for state in worker["tcp_nodelay"] or ())
    policies = (str(worker["scheduling"]) for worker in all_workers)
    return [
        Treatment("device workers", wanted, found, not fallen, note=f"on {hosts}"),
        compared("devices TCP_NODELAY", on_off(p.tcp_nodelay), states),
        compared("devices scheduling policy", "SCHED_OTHER", policies),
    ]


def _database(facts: Sequence[DatabaseFacts]) -> list[Treatment]:
    """Judge whether a confirmed commit is on disk, and whether the database was one process all the time."""
    settings = (f"fsync {one.fsync}, synchronous_commit {one.synchronous_commit}" for one in facts)
    return [
        compared("commit on disk", "fsync on, synchronous_commit on", settings),
        compared("database process", SAME, SAME if len({one.started for one in facts}) == 1 else "restarted"),
    ]


def _machines(parameters: TwinParameters, scans: Sequence[Scan]) -> list[Treatment]:
    """Judge processors, memory and files of each broker's machine; none where the brokers are not the lab's own."""
    if parameters.broker_hosts:
        return []
    kinds, judged = broker_machines(parameters), []
    for host in dict.fromkeys(host for host, _port in used_hosts(parameters)):
        each = [[one for one in processes(scan, "broker") if one["container"]["hostname"] == host] for scan in scans]
        if kind := kinds.get(host):
            seen = [process for there in each for process in there]
            memory = [_memory(process["container"]["memory_limit"]) for process in seen]
            sets = [f"set of {len(process['cpus'])}" for process in seen]
            judged += [
                compared(f"{host} processors", f"set of {whole_cpus(kind, parameters.machine_scale)}", sets),
                compared(f"{host} memory", _memory(GIGABYTES[kind] << 30), memory),
            ]
        # A broker writes its file within a second, which may be after the first scan.
        judged.append(_persistence(parameters, host, each[-1]))
    return judged


def _confined(parameters: TwinParameters, scans: Sequence[Scan]) -> list[Treatment]:
    """Judge whether the instance's workers had a broker's processors and no others."""
    if parameters.broker_hosts or parameters.confine != ALL:
        return []
    machines, found = (
        {",".join(map(str, sorted(process["cpus"]))) for scan in scans for process in processes(scan, role)}
        for role in ("broker", "workers")
    )
    wanted = f"processors {' or '.join(sorted(machines))}"
    seen = f"processors {' and '.join(sorted(found))}" if found else ""
    return [Treatment("workers within their machine", wanted, seen, bool(found) and found <= machines)]


def _memory(limit: int | None) -> str:
    return "no limit" if limit is None else f"{limit / (1 << 20):g} MiB"


def _persistence(parameters: TwinParameters, host: str, brokers: Sequence[Mapping[str, Any]]) -> Treatment:
    """Judge whether each broker of a machine keeps its queue in a file, by the file."""
    files = {file for process in brokers for file in process["files"]}
    ports = [port for at, port in used_hosts(parameters) if at == host]
    there = [on_off(f"mosquitto/data/{port}/mosquitto.db" in files) for port in ports]
    return compared(f"{host} persistence", on_off(parameters.persistence), there)


def used_hosts(parameters: TwinParameters) -> list[tuple[str, int]]:
    """Return host and port of every broker of a run, once each."""
    return list(dict.fromkeys(place for cell in parameters.cells for place in parameters.hosts(cell)))
