"""What a link does to packets, read from JSON or from the environment."""

import re
from dataclasses import asdict, dataclass
from typing import Any

from looplab.errors import UsageError
from looplab.spec.reader import HOST, Reader

DIRECTIONS = ("egress", "ingress")
DISTRIBUTIONS = ("constant", "uniform", "normal", "pareto", "paretonormal")
MAX_DELAY_MS = 10_000
# The kernel's prio queue, below which netem is, has 16 bands; one is for packets outside every link.
MAX_LINKS = 15
# With NFQUEUE link n has queue FIRST_QUEUE + n.
FIRST_QUEUE = 9100
_EXPECTED = {
    "peer": "a host name or an IPv4 address",
    "direction": " or ".join(DIRECTIONS),
    "distribution": ", ".join(DISTRIBUTIONS),
    "delay_ms": f"0 to {MAX_DELAY_MS} ms",
    "jitter_ms": f"0 to {MAX_DELAY_MS} ms, and 0 with the distribution constant",
    "loss_percent": "0 to 100",
    "reorder": "true or false",
}


@dataclass(frozen=True)
class LinkSettings:
    """One direction of a link to `peer` (host name or IPv4 address of its other end).

    `jitter_ms` is the scale of the distribution, as in netem: the half width of `uniform`, for the others the factor
    of iproute2's table (entry / 8192). That is the standard deviation of `normal`; the tables of `pareto` and
    `paretonormal` have 0.82 and 0.83 of it. A delay drawn below zero is zero.
    Without `reorder` a packet never passes the one before it.
    """

    peer: str
    direction: str
    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    distribution: str = "constant"
    loss_percent: float = 0.0
    reorder: bool = True

    def as_json(self) -> dict[str, Any]:
        """Return the settings as PUT /links takes them."""
        return asdict(self)

    def __post_init__(self) -> None:
        """Raise LabError (exit code 2) for a value no link can have."""
        fits = {
            "peer": bool(re.fullmatch(HOST, self.peer)),
            "direction": self.direction in DIRECTIONS,
            "distribution": self.distribution in DISTRIBUTIONS,
            "delay_ms": 0 <= self.delay_ms <= MAX_DELAY_MS,
            "jitter_ms": 0 <= self.jitter_ms <= (0 if self.distribution == "constant" else MAX_DELAY_MS),
            "loss_percent": 0 <= self.loss_percent <= 100,
            "reorder": self.reorder in (True, False),
        }
        for name in (name for name, good in fits.items() if not good):
            raise UsageError(
                f"{name}={getattr(self, name)!r} is invalid: expected {_EXPECTED[name]}.",
                f"Correct `{name}` (`LINK_{name.upper()}` in the environment).",
            )


def both_ways(
    peer: str, delay_ms: float, jitter_ms: float = 0.0, loss_percent: float = 0.0, distribution: str = ""
) -> list[LinkSettings]:
    """Return a link to `peer` whose directions are alike and keep the order; jitter is normal by default."""
    distribution = distribution or ("normal" if jitter_ms else "constant")
    values = (delay_ms, jitter_ms, distribution, loss_percent, False)
    return [LinkSettings(peer, direction, *values) for direction in DIRECTIONS]


def parse_links(document: object) -> list[LinkSettings]:
    """Return the links of a decoded JSON list. Raises LabError (exit code 2)."""
    if not isinstance(document, list) or len(document) > MAX_LINKS:
        raise UsageError(f"The links are no JSON list of at most {MAX_LINKS}.", "Send [{...}, {...}].")
    try:
        return [LinkSettings(**entry) for entry in document]
    except TypeError as error:
        raise UsageError(f"A link is not understood: {error}.", "Send [{...}, {...}].") from None


def read_links(get: Reader) -> list[LinkSettings]:
    """Return the link to LINK_PEER, none without one, by LINK_DELAY_MS and its like. Raises LabError (exit code 2)."""
    if not get.given("LINK_PEER"):
        return []
    peer = get.matching("LINK_PEER", None, HOST, _EXPECTED["peer"])
    delay_ms, jitter_ms = (get.number(name, 0, 0, MAX_DELAY_MS) for name in ("LINK_DELAY_MS", "LINK_JITTER_MS"))
    usual = "normal" if jitter_ms else "constant"
    distribution = get.choice("LINK_DISTRIBUTION", usual, DISTRIBUTIONS)
    return both_ways(peer, delay_ms, jitter_ms, get.number("LINK_LOSS_PERCENT", 0, 0, 100), distribution)
