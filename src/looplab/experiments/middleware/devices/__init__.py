"""The simulated devices are greenlets of gevent; a process for each processor drives them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random

PROCESS = "lab-devices"


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

    def message(self, device: int, number: int) -> str:
        """Return the name of what a device posts with a request."""
        return f"{self.name}-{device}-{number}"

    def due_ns(self, device: int) -> range:
        """Return when each request of a device is due, from the start: the first at random in the first period.

        `together`, all devices are due at the start.
        """
        first_ns = 0 if self.together else Random(f"{self.seed} {device}").randrange(self.period_ns)
        return range(first_ns, self.end_ns, self.period_ns)

    def slices(self, processes: int) -> "list[DevicePlan]":
        """Return the plan of each process: its devices in turn, as equal in number as possible, never none."""
        firsts = [self.first + self.devices * number // processes for number in range(processes + 1)]
        return [replace(self, first=first, devices=end - first) for first, end in pairwise(firsts) if end > first]
