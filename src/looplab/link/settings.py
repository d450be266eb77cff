"""What a link does to packets, read from JSON or from the environment."""

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from looplab.errors import LabError, UsageError

DIRECTIONS = ("egress", "ingress")
DISTRIBUTIONS = ("constant", "uniform", "normal", "pareto", "paretonormal")
MAX_DELAY_MS = 10_000
# The kernel's prio queue, below which netem is, has 16 bands; one is for packets outside every link.
MAX_LINKS = 15
# With NFQUEUE link n has queue FIRST_QUEUE + n.
FIRST_QUEUE = 9100
# The most each number may be, and its unit.
NUMBERS: dict[str, tuple[int, str]] = {
    "delay_ms": (MAX_DELAY_MS, "milliseconds"),
    "jitter_ms": (MAX_DELAY_MS, "milliseconds"),
    "loss_percent": (100, "per cent"),
}
_PEER = re.compile(r"[A-Za-z0-9_.-]{1,253}")


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
        if not isinstance(self.peer, str) or not _PEER.fullmatch(self.peer):
            raise _invalid("peer", self.peer, "a host name or an IPv4 address")
        for name, allowed in (("direction", DIRECTIONS), ("distribution", DISTRIBUTIONS)):
            if getattr(self, name) not in allowed:
                raise _invalid(name, getattr(self, name), f"one of {', '.join(allowed)}")
        for name, (most, unit) in NUMBERS.items():
            _check_number(name, getattr(self, name), most, unit)
        if not isinstance(self.reorder, bool):
            raise _invalid("reorder", self.reorder, "true or false")
        if self.jitter_ms and self.distribution == "constant":
            raise UsageError(
                f"jitter_ms={self.jitter_ms:g} contradicts the distribution constant.",
                f"Choose one of {', '.join(DISTRIBUTIONS[1:])}, or set `jitter_ms` to 0.",
            )


def both_ways(peer: str, delay_ms: float, jitter_ms: float = 0.0, **more: Any) -> list[LinkSettings]:
    """Return a link to `peer` whose directions are alike, its jitter normal; `more` are further settings."""
    distribution = "normal" if jitter_ms else "constant"
    return [LinkSettings(peer, direction, delay_ms, jitter_ms, distribution, **more) for direction in DIRECTIONS]


def parse_links(document: object) -> list[LinkSettings]:
    """Return the links of a decoded JSON list; raises LabError (exit code 2) naming the field at fault."""
    if not isinstance(document, list):
        raise UsageError("The links are not a JSON list.", "Send [{...}, {...}], one object for each link.")
    if len(document) > MAX_LINKS:
        raise UsageError(f"{len(document)} links are more than one emulator carries ({MAX_LINKS}).", "Ask for fewer.")
    links = [_parse_link(entry) for entry in document]
    ends = [(link.peer, link.direction) for link in links]
    for peer, direction in ends:
        if ends.count((peer, direction)) > 1:
            raise UsageError(f"{direction} of {peer} is set twice.", "Set each direction of a peer once.")
    return links


def from_environment(environment: Mapping[str, str]) -> list[LinkSettings]:
    """Return a link to LINK_PEER in both directions, or in the one that LINK_DIRECTION names; none without a peer.

    The other fields are LINK_DELAY_MS, LINK_JITTER_MS, LINK_DISTRIBUTION (default normal if there is jitter),
    LINK_LOSS_PERCENT and LINK_REORDER (on, off).
    """
    given = {name: value.strip() for name, value in environment.items() if value.strip()}
    if "LINK_PEER" not in given:
        return []
    direction = given.get("LINK_DIRECTION", "both")
    values: dict[str, Any] = {name: _float(given, f"LINK_{name.upper()}") for name in NUMBERS}
    values["distribution"] = given.get("LINK_DISTRIBUTION", "normal" if values["jitter_ms"] else "constant")
    reorder = given.get("LINK_REORDER", "on").lower()
    if reorder not in ("on", "off"):
        raise UsageError(f"LINK_REORDER={reorder!r}: expected on or off.", "Correct `LINK_REORDER`.")
    values.update(peer=given["LINK_PEER"], reorder=reorder == "on")
    return parse_links([{**values, "direction": one} for one in (DIRECTIONS if direction == "both" else [direction])])


def _parse_link(entry: object) -> LinkSettings:
    if not isinstance(entry, dict):
        raise UsageError(f"A link is {entry!r}, not a JSON object.", "Send [{...}, {...}].")
    known = [field.name for field in fields(LinkSettings)]
    for name in entry:
        if name not in known:
            raise UsageError(f"A link has no {name!r}.", f"Known are {', '.join(known)}.")
    for name in ("peer", "direction"):
        if name not in entry:
            raise UsageError(f"A link has no {name}.", f"Set `{name}` for each link.")
    return LinkSettings(**entry)


def _check_number(name: str, value: object, most: int, unit: str) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise _invalid(name, value, f"a number of {unit}")
    if not 0 <= value <= most:
        raise _invalid(name, value, f"0 to {most} {unit}")


def _invalid(name: str, value: object, expected: str) -> LabError:
    return UsageError(
        f"{name}={value!r} is invalid: expected {expected}.",
        f"Correct `{name}` (`LINK_{name.upper()}` in the environment).",
    )


def _float(given: Mapping[str, str], name: str) -> float:
    try:
        return float(given.get(name, "0"))
    except ValueError:
        raise UsageError(f"{name}={given[name]!r} is not a number.", f"Correct `{name}`, e.g. {name}=5.") from None
