"""Whether a run's parts were as wanted: the same in every cell, on their machines, commits on disk."""

from collections.abc import Sequence

from looplab.experiments.twin import NAME
from looplab.experiments.twin.database import Facts
from looplab.experiments.twin.parameters import BROKERS, CENTRAL, LIMIT, TwinParameters
from looplab.treatments.judgement import Treatment, judge_nodelay, judge_policy, judge_process, unverified
from looplab.treatments.loads import loads
from looplab.treatments.looks import Look, processes

_ROLES = ("broker", "instance", "controller")


def judge(
    parameters: TwinParameters, looks: Sequence[Look | None], database: Facts, started: set[str]
) -> list[Treatment]:
    """Judge every treatment of a run from the looks taken before and after each sending."""
    if found := unverified(looks):
        return found
    ports = {port for cell in parameters.cells for _host, port in parameters.hosts(cell)}
    good = [look for look in looks if look is not None]
    found += [judge_process(good, role) for role in _ROLES]
    found += [judge_policy(good, role, 0) for role in _ROLES]
    found += [judge_nodelay(good, role, parameters.tcp_nodelay, *ports) for role in ("broker", "controller")]
    found += _machines(parameters, good)
    found.append(_committed(database))
    same = "the same in every cell"
    found.append(Treatment("database process", same, same if len(started) == 1 else "restarted", len(started) == 1))
    return [*found, *(load.judge(good, wanted=False) for load in loads().values())]


def machines(parameters: TwinParameters) -> dict[str, float | None]:
    """Return the processors that each broker's container shall have, by host name; None for no limit."""
    cpus = {kind: limit or None for kind, limit in parameters.machine_cpus.items()}
    wanted: dict[str, float | None] = {}
    for cell in parameters.cells:
        for host, _port in parameters.hosts(cell):
            if cell.placement == CENTRAL:
                wanted[host] = cpus["2" if cell.brokers == 2 else "3"]
            else:
                wanted[host] = {NAME: cpus["3"], BROKERS: cpus["1"], LIMIT: None}[parameters.scenario]
    return wanted


def _machines(parameters: TwinParameters, looks: Sequence[Look]) -> list[Treatment]:
    if parameters.broker_hosts:
        return []
    found: dict[str, set[str]] = {}
    for look in looks:
        for process in processes(look, "broker"):
            container = process["container"]
            seen = container["cpu_limit"] if parameters.confinement == "quota" else len(process["cpus"])
            found.setdefault(str(container["hostname"]), set()).add(_shown(seen))
    return [_machine(parameters, host, limit, found.get(host, set())) for host, limit in machines(parameters).items()]


def _machine(parameters: TwinParameters, host: str, limit: float | None, found: set[str]) -> Treatment:
    wanted = _shown(limit)
    seen = ", ".join(sorted(found)) or "not running"
    note = "" if seen == wanted else "set `TWIN_CPUS_1` … `TWIN_CPUS_3` in .env to what this machine has"
    # Without a limit any set of processors will do.
    verified = seen == wanted or (parameters.confinement == "cpuset" and limit is None and bool(found))
    return Treatment(f"{host} processors", wanted, seen, verified, note=note)


def _shown(limit: float | None) -> str:
    return "no limit" if limit is None else f"{limit:g}"


def _committed(database: Facts) -> Treatment:
    """Judge whether a confirmed commit is on disk."""
    found = f"fsync {database.fsync}, synchronous_commit {database.synchronous_commit}"
    wanted = "fsync on, synchronous_commit on"
    return Treatment("commit on disk", wanted, found, found == wanted, note=f"PostgreSQL {database.version}")
