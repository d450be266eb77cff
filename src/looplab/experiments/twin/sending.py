"""What one sending found beside its rows: the counts of the workers, the parts' processor time, what commits cost."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from looplab.experiments.twin.database import CommitCost
from looplab.experiments.twin.instance.orders import Order, WorkerCount, WorkerCounts
from looplab.treatments.scans import Scan, grown, survivors


@dataclass(frozen=True)
class Sent:
    """What one sending found beside its rows: what run.json holds of it, what makes its cell invalid, and its length.

    The length is 0 where no process could be read.
    """

    order: Order
    figures: dict[str, Any]
    faults: list[str]
    lasted_s: float


def usage(
    order: Order, counts: WorkerCounts, scans: Sequence[Scan | None], costs: Sequence[CommitCost]
) -> dict[str, Any]:
    """Return what goes into a cell of run.json beside what its rows tell; scans and costs are before and after it."""
    before, after = scans
    first, last = costs
    times = {"sleep": WorkerCount.SLEEP_NS, "session": WorkerCount.SESSION_NS, "store": WorkerCount.STORE_NS}
    return {
        "malformed": sum(counts.each(WorkerCount.MALFORMED)),
        "disconnects": sum(counts.each(WorkerCount.DISCONNECTS)),
        "worker_restarts": sum(counts.each(WorkerCount.STARTS)) - order.count,
        "database_errors": sum(counts.each(WorkerCount.DATABASE_ERRORS)),
        "cpu_share": {} if before is None or after is None else _parts(order, before, after),
        "fsync": {"count": last.syncs - first.syncs, "seconds": round((last.sync_ms - first.sync_ms) / 1000, 6)},
        "unacknowledged_max": max(counts.each(WorkerCount.UNACKNOWLEDGED_MAX)),
        "instance_s": {name: round(sum(counts.each(count)) / 1e9, 6) for name, count in times.items()},
    }


def _parts(order: Order, before: Scan, after: Scan) -> dict[str, Any]:
    """Return shares of one processor by part, and of all processors of the machine."""
    elapsed_ns = after["clock_ns"] - before["clock_ns"]
    hosts = {host for host, _port in order.brokers}

    def shares(role: str) -> list[float]:
        pairs = survivors(before, after, role)
        # Brokers of other cells run, too; without Compose a broker has no host of its own.
        mine = [pair for pair in pairs if pair[1]["container"]["hostname"] in hosts] or pairs
        return [round((now["cpu_ns"] - was["cpu_ns"]) / elapsed_ns, 4) for was, now in mine]

    # Sessions come and go within a cell: their time is then that of their parent's children.
    database_ns = grown(before, after, "database", "cpu_ns", "children_cpu_ns")
    idle_s = sum(now["idle_s"] - before["processors"][name]["idle_s"] for name, now in after["processors"].items())
    return {
        "broker": shares("broker"),
        "instance": shares("workers"),
        "database": round(database_ns / elapsed_ns, 4),
        "controller": sum(shares("controller")),
        "machine": round(max(0.0, 1 - 1e9 * idle_s / elapsed_ns / len(after["processors"])), 4),
    }
