"""The simulated devices are greenlets of gevent; a process for each processor drives them."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random

from looplab.experiments.middleware.placement import others
from looplab.system.json_client import read_token

# The first process listens here, the others on the next ports.
PORT = 9210
PROCESS = "lab-devices"


def order_token() -> str:
    """Return the token that an order carries: that of this start of the lab (run/identities.py)."""
    return read_token("devices")


def count() -> int:
    """Return the number of processes: LOAD_PROCESSES, or one for each processor that the devices may use."""
    return int(os.environ.get("LOAD_PROCESSES") or 0) or len(others(os.cpu_count() or 1))


@dataclass(frozen=True)
class DevicePlan:
    """One repetition: devices number `first` up to `first + devices`, each posting every `period_ns`.

    `routes` gives the address (http://host:port) for the longest beginning of a path that it names. No device posts
    after `end_ns`; what is not answered `deadline_ns` later is unfinished.
    """

    name: str
    first: int
    devices: int
    routes: Mapping[str, str]
    certificate: str
    period_ns: int
    end_ns: int
    deadline_ns: int
    payload_bytes: int
    drop_probability: float
    seed: int
    together: bool

    @property
    def numbers(self) -> range:
        """The numbers of its devices."""
        return range(self.first, self.first + self.devices)

    def due_ns(self, device: int) -> range:
        """Return when each request of a device is due, from the start: the first at random in the first period.

        `together`, all devices are due at the start.
        """
        first_ns = 0 if self.together else Random(f"{self.seed} {device}").randrange(self.period_ns)
        return range(first_ns, self.end_ns, self.period_ns)

    def slices(self, processes: int) -> "list[DevicePlan]":
        """Return the plan of each process: its devices in turn, as equal in number as possible, never none."""
        each, more = divmod(self.devices, processes)
        counts = [each + (number < more) for number in range(processes)]
        firsts = [self.first + sum(counts[:number]) for number in range(processes)]
        return [replace(self, first=first, devices=size) for first, size in zip(firsts, counts, strict=True) if size]
