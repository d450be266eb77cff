"""What one direction of a link decides for each packet; knows neither sockets nor clocks."""

import random

from looplab.link.distributions import sampler
from looplab.link.settings import LinkSettings

# netem counts the Ethernet header, which a queue of IP packets does not see.
ETHERNET_HEADER_BYTES = 14


class Direction:
    """Draws for one LinkSettings; all times in ns of one monotonic clock."""

    def __init__(self, settings: LinkSettings, rng: random.Random | None = None) -> None:
        rng = rng or random.Random()
        self._random = rng.random
        self._delay_ns = sampler(settings, rng)
        self._loss = settings.loss_percent / 100
        self._duplicate = settings.duplicate_percent / 100
        self._keeps_order = bool(settings.rate_kbit) or not settings.reorder
        self._ns_per_byte = 8e6 / settings.rate_kbit if settings.rate_kbit else 0.0
        self._last_due_ns = 0
        # How long packets waited for those before them and for their own time at the rate, all together.
        self.waited_ns = 0

    def duplicates(self) -> bool:
        """Return whether the next packet gets a copy."""
        return self._duplicate > 0 and self._random() < self._duplicate

    def loses(self) -> bool:
        """Return whether the next packet is lost."""
        return self._loss > 0 and self._random() < self._loss

    def due_ns(self, arrival_ns: int, ip_bytes: int) -> int:
        """Return when a packet of `ip_bytes` that came at `arrival_ns` leaves the link."""
        due = arrival_ns + self._delay_ns()
        if self._keeps_order:
            drawn = due
            due = max(due, self._last_due_ns) + int((ip_bytes + ETHERNET_HEADER_BYTES) * self._ns_per_byte)
            self._last_due_ns = due
            self.waited_ns += due - drawn
        return due
