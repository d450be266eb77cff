"""What one process of devices does in one repetition, and when each of its requests is due."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True)
class Plan:
    """One repetition: devices number `first` up to `first + devices`, each posting every `period_ns`.

    `routes` gives the address (http://host:port) for the longest beginning of a path that it names. The load is that
    of the `seconds` after the warm-up; what is not answered `deadline_ns` after its end is unfinished.
    """

    name: str
    first: int
    devices: int
    routes: Mapping[str, str]
    certificate: str
    period_ns: int
    warm_up_ns: int
    load_ns: int
    deadline_ns: int
    payload_bytes: int
    drop_probability: float
    seed: int

    def offset_ns(self, device: int) -> int:
        """Return when a device's first request is due, from the start: at random in the first period."""
        return Random(f"{self.seed} {device}").randrange(self.period_ns)

    def due_ns(self, device: int, number: int) -> int:
        """Return when a device's request is due, from the start."""
        return self.offset_ns(device) + number * self.period_ns

    def loading(self, device: int) -> range:
        """Return the numbers of a device's requests that are due in the load, after the warm-up."""
        offset_ns = self.offset_ns(device)
        first = -(-(self.warm_up_ns - offset_ns) // self.period_ns)
        last = -(-(self.warm_up_ns + self.load_ns - offset_ns) // self.period_ns)
        return range(max(0, first), last)
