"""What each part used in a sending: processor time, commits to disk, time within the instance."""

from collections.abc import Mapping, Sequence
from typing import Any

from looplab.experiments.twin import TwinCell
from looplab.experiments.twin.parameters import TwinParameters
from looplab.experiments.twin.sending import Sent
from looplab.treatments.scans import Scan, processes, survivors


def usage(parameters: TwinParameters, cell: TwinCell, sent: Sent) -> dict[str, Any]:
    """Return what goes into a cell of run.json beside what its rows tell; null where nothing was read."""
    before, after = sent.scans
    cost = sent.costs
    syncs, sync_ms = (cost[1].syncs - cost[0].syncs, cost[1].sync_ms - cost[0].sync_ms) if cost else (0, 0.0)
    return {
        "cpu_share": {} if before is None or after is None else _parts(parameters, cell, before, after),
        "fsync": {"count": syncs, "seconds": round(sync_ms / 1000, 6)} if cost else None,
        "unacknowledged_max": max((worker["unacknowledged_max"] for worker in sent.workers), default=None),
        "instance_s": {
            name: round(sum(worker[f"{name}_ns"] for worker in sent.workers) / 1e9, 6)
            for name in ("sleep", "session", "store", "held")
        },
    }


def _parts(p: TwinParameters, cell: TwinCell, before: Scan, after: Scan) -> dict[str, Any]:
    """Return shares of one processor by part."""
    elapsed_ns = after["clock_ns"] - before["clock_ns"]
    hosts = {host for host, _port in p.hosts(cell)}
    brokers, workers, controllers = (survivors(before, after, role) for role in ("broker", "workers", "controller"))
    brokers = [pair for pair in brokers if p.broker_hosts or pair[1]["container"]["hostname"] in hosts]

    def shares_of(pairs: Sequence[tuple[dict[str, Any], dict[str, Any]]]) -> list[float]:
        return [_share(was["cpu_ns"], now["cpu_ns"], elapsed_ns) for was, now in pairs]

    return {
        "broker": shares_of(brokers),
        "instance": shares_of(workers),
        "database": _group_share(before, after, "database", elapsed_ns),
        "controller": sum(shares_of(controllers)),
    }


def _group_share(before: Scan, after: Scan, role: str, elapsed_ns: int) -> float | None:
    """Return the share of a whole container: sessions come and go within a cell, and their time with them."""
    first, last = (_group_ns(scan, role) for scan in (before, after))
    return None if first is None or last is None else _share(first, last, elapsed_ns)


def _group_ns(scan: Scan, role: str) -> int | None:
    readings = (process["container"]["cpu_ns"] for process in processes(scan, role))
    return max((cpu_ns for cpu_ns in readings if cpu_ns is not None), default=None)


def _share(first_ns: int, last_ns: int, elapsed_ns: int) -> float:
    return round((last_ns - first_ns) / elapsed_ns, 4) if elapsed_ns > 0 else 0.0


def largest(shares: Mapping[str, Any]) -> dict[str, float]:
    """Return the share of each part's busiest process."""
    known = {name: value for name, value in shares.items() if value is not None and value != []}
    return {name: float(max(value) if isinstance(value, list) else value) for name, value in known.items()}


def busy(before: Scan | None, after: Scan | None) -> float:
    """Return the share of the machine's processor time that was not idle between two scans."""
    if before is None or after is None or not after.get("processors") or after["clock_ns"] <= before["clock_ns"]:
        return 0.0
    elapsed_s = (after["clock_ns"] - before["clock_ns"]) / 1e9
    idle_s: float = sum(
        now["idle_s"] - before["processors"][name]["idle_s"] for name, now in after["processors"].items()
    )
    return float(max(0.0, 1 - idle_s / elapsed_s / len(after["processors"])))
