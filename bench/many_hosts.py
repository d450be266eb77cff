"""Say what a digital twin stores on 1, 2, 3, 10 and 100 hosts, and what breaks first, by what one machine measured.

    ./lab run twin-limit --write-mode row --brokers 1
    python3 bench/many_hosts.py results/…-twin-limit [--hosts 1,2,3,10,100] [--cores 4] [--disk-us 500]

Service demand of a part: its processor time over the messages stored, D = U / X. Limit: X <= m / D of the resource for
which that is least, m processors or threads (Denning and Buzen, The Operational Analysis of Queueing Network Models,
ACM Computing Surveys 10(3), 1978). Delay: each resource is an M/M/m queue, its wait by Erlang's C formula.

Assumed: a host is as fast as this machine, with `--cores` processors, a commit takes `--disk-us`; the network and
the overlay cost nothing; no two commits share a write to the disk; messages come at random and take exponential times
(those of devices at fixed intervals wait less). Parts are placed as in docs/many-hosts.md: instance and database
on the first, a device worker on each other one, brokers on up to four of these.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

MOST_BROKERS = 4
PARTS = ("broker", "instance", "database", "device", "disk", "sleep")


class Demands(NamedTuple):
    """What one message needs, in s: of a processor for each part, of the disk for its commit, of its worker's sleep."""

    broker: float
    instance: float
    database: float
    device: float
    disk: float
    sleep: float


class Resource(NamedTuple):
    """What may be used up: `servers` at a time; `demand_s` of all messages on average, `visit_s` of one that comes."""

    name: str
    demand_s: float
    servers: float
    visit_s: float

    def wait_s(self, rate_per_s: float) -> float:
        """Return the mean time in the queue before it, infinite from its limit on."""
        whole = max(1, int(self.servers))
        load = rate_per_s * self.demand_s * whole / self.servers
        if load >= whole:
            return float("inf")
        blocked = 1.0
        for number in range(1, whole + 1):
            blocked = load * blocked / (number + load * blocked)
        queued = blocked / (1 - load / whole * (1 - blocked))
        return queued * self.visit_s / self.servers / (1 - load / whole)


def demands(cell: Mapping[str, Any]) -> Demands:
    """Return what a cell of run.json says of a message; it has one broker, and its parts were read."""
    rate, stored, share = cell["rate_out_per_s"], cell["stored"], cell["cpu_share"]
    return Demands(
        sum(share["broker"]) / rate,
        sum(share["instance"]) / rate,
        share["database"] / rate,
        share["controller"] / rate,
        cell["fsync"]["seconds"] / stored,
        cell["instance_s"]["sleep"] / stored,
    )


def resources(d: Demands, hosts: int, cores: float, *, apart: bool = False) -> list[Resource]:
    """Return what `hosts` have, with the database on one of its own if `apart`."""
    others = max(1, hosts - 1 - apart)
    brokers = min(MOST_BROKERS, others)
    # A message is at one broker, one worker of the instance and one device.
    worker = d.instance + d.database + d.disk + d.sleep
    threads = [
        Resource("a broker, one thread", d.broker / brokers, 1, d.broker),
        Resource("a worker of the instance, one thread", worker / brokers, 1, worker),
        Resource("a device worker, one thread", d.device / others, 1, d.device),
    ]
    if d.disk:
        threads.append(Resource("the disk of the database", d.disk, 1, d.disk))
    if hosts == 1:
        every = d.broker + d.instance + d.database + d.device
        return [*threads, Resource("the processors of the only host", every, cores, every)]
    first = d.instance + (0 if apart else d.database)
    other = Resource(
        "the processors of a broker's host", d.broker / brokers + d.device / others, cores, d.broker + d.device
    )
    database = [Resource("the processors of the database's host", d.database, cores, d.database)] if apart else []
    return [*threads, Resource("the processors of the instance's host", first, cores, first), other, *database]


def limit(all_resources: list[Resource]) -> tuple[float, str]:
    """Return the most messages a second, and what is used up then."""
    least = min(all_resources, key=lambda one: one.servers / one.demand_s)
    return least.servers / least.demand_s, least.name


def delay_s(d: Demands, all_resources: list[Resource], rate_per_s: float) -> float:
    """Return the mean time from sent to stored: the work, the disk, and the queues for processors."""
    queues = (one for one in all_resources if "thread" not in one.name)
    return d.broker + d.instance + d.database + d.disk + d.sleep + sum(one.wait_s(rate_per_s) for one in queues)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("run", type=Path)
    parser.add_argument("--hosts", default="1,2,3,10,100")
    parser.add_argument("--cores", type=float)
    parser.add_argument("--disk-us", type=float)
    options = parser.parse_args()
    run = json.loads((options.run / "run.json").read_text())
    cores = options.cores or run["environment"]["cores"]
    for cell in run["cells"]:
        if cell["brokers"] != 1 or not cell["cpu_share"] or not cell["rate_out_per_s"]:
            continue
        d = demands(cell)
        if options.disk_us is not None:
            d = d._replace(disk=options.disk_us / 1e6)
        needs = ", ".join(f"{name} {1e6 * getattr(d, name):.0f}" for name in PARTS)
        print(f"{cell['write_mode']}, QoS {cell['qos']}: a message takes, in us: {needs}")
        print("hosts   limit/s   delay at half, ms   breaks first")
        for hosts in map(int, options.hosts.split(",")):
            for apart in (False, True)[: 1 + (hosts > 2)]:
                there = resources(d, hosts, cores, apart=apart)
                most, name = limit(there)
                late_ms = 1000 * delay_s(d, there, most / 2)
                print(f"{hosts:5}{most:10.0f}{late_ms:20.1f}   {name}{', database apart' if apart else ''}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
