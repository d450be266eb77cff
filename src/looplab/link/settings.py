"""What a link shall do, and how it is told: JSON or the environment."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from looplab.errors import EXIT_USAGE, LabError

DIRECTIONS = ("egress", "ingress")
DISTRIBUTIONS = ("constant", "uniform", "normal", "pareto", "paretonormal")
MAX_DELAY_MS = 10_000
MAX_RATE_KBIT = 10_000_000
# The kernel's prio queue, which netem hangs on, has 16 bands; one is for what no link carries.
MAX_LINKS = 15
_PEER = re.compile(r"[A-Za-z0-9_.-]{1,253}")


@dataclass(frozen=True)
class LinkSettings:
    """One direction of a link to `peer` (host name or IPv4 address of its other end).

    `jitter_ms` is the scale of the distribution, as in netem: the half width of `uniform`, for the others what
    iproute2's table (entry / 8192) is multiplied with. That is the standard deviation of `normal`; the tables of
    `pareto` and `paretonormal` have 0.82 and 0.83 of it. A delay drawn below zero is none.
    Without `reorder` a packet never passes the one before it; a rate keeps the order in any case, as netem's does.
    """

    peer: str
    direction: str
    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    distribution: str = "constant"
    loss_percent: float = 0.0
    duplicate_percent: float = 0.0
    reorder: bool = True
    rate_kbit: int = 0

    def as_json(self) -> dict[str, Any]:
        """The settings as PUT /links takes them."""
        return asdict(self)

    def __post_init__(self) -> None:
        """Raises LabError (exit code 2) for a value no link can have."""
        if not isinstance(self.peer, str) or not _PEER.fullmatch(self.peer):
            raise _wrong("peer", self.peer, "a host name or an IPv4 address")
        _one_of("direction", self.direction, DIRECTIONS)
        _one_of("distribution", self.distribution, DISTRIBUTIONS)
        _number("delay_ms", self.delay_ms, MAX_DELAY_MS, "milliseconds")
        _number("jitter_ms", self.jitter_ms, MAX_DELAY_MS, "milliseconds")
        _number("loss_percent", self.loss_percent, 100, "per cent")
        _number("duplicate_percent", self.duplicate_percent, 100, "per cent")
        _number("rate_kbit", self.rate_kbit, MAX_RATE_KBIT, "kbit/s, 0 for no limit")
        if self.rate_kbit != int(self.rate_kbit):
            raise _wrong("rate_kbit", self.rate_kbit, "a whole number of kbit/s")
        if not isinstance(self.reorder, bool):
            raise _wrong("reorder", self.reorder, "true or false")
        if self.jitter_ms and self.distribution == "constant":
            raise LabError(
                f"jitter_ms={self.jitter_ms:g} with the distribution constant says two things.",
                f"Choose one of {', '.join(DISTRIBUTIONS[1:])}, or set jitter_ms to 0.",
                EXIT_USAGE,
            )


def parse_links(document: object) -> list[LinkSettings]:
    """The links of a decoded JSON list; raises LabError (exit code 2) naming the field at fault."""
    if not isinstance(document, list):
        raise LabError("The links are not a JSON list.", "Send [{...}, {...}], one object for each link.", EXIT_USAGE)
    if len(document) > MAX_LINKS:
        raise LabError(
            f"{len(document)} links are more than one emulator carries ({MAX_LINKS}).", "Ask for fewer.", EXIT_USAGE
        )
    links = [_parse_link(entry) for entry in document]
    ways = [(link.peer, link.direction) for link in links]
    for peer, direction in ways:
        if ways.count((peer, direction)) > 1:
            raise LabError(f"{direction} of {peer} is set twice.", "Give each direction of a peer once.", EXIT_USAGE)
    return links


def read_links(text: str) -> list[LinkSettings]:
    """The links of a JSON text; raises LabError (exit code 2)."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise LabError(f"The links are not JSON: {error}.", "Send a JSON list of links.", EXIT_USAGE) from None
    return parse_links(document)


def from_environment(environment: Mapping[str, str]) -> list[LinkSettings]:
    """LINK_SETTINGS (a JSON list), else one link to LINK_PEER in LINK_DIRECTION (both by default), else none.

    The other fields are LINK_DELAY_MS, LINK_JITTER_MS, LINK_DISTRIBUTION (normal where there is jitter),
    LINK_LOSS_PERCENT, LINK_DUPLICATE_PERCENT, LINK_REORDER (on, off) and LINK_RATE_KBIT.
    """
    given = {name: value.strip() for name, value in environment.items() if value.strip()}
    if "LINK_SETTINGS" in given:
        return read_links(given["LINK_SETTINGS"])
    if "LINK_PEER" not in given:
        return []
    directions: tuple[str, ...] = DIRECTIONS
    if given.get("LINK_DIRECTION", "both") != "both":
        directions = (given["LINK_DIRECTION"],)
    values: dict[str, Any] = {
        "peer": given["LINK_PEER"],
        **{name: _float(given, f"LINK_{name.upper()}") for name in ("delay_ms", "jitter_ms", "loss_percent")},
        "duplicate_percent": _float(given, "LINK_DUPLICATE_PERCENT"),
        "rate_kbit": _float(given, "LINK_RATE_KBIT"),
        "reorder": _switch(given, "LINK_REORDER", True),
    }
    values["distribution"] = given.get("LINK_DISTRIBUTION", "normal" if values["jitter_ms"] else "constant")
    return parse_links([{**values, "direction": direction} for direction in directions])


def _parse_link(entry: object) -> LinkSettings:
    if not isinstance(entry, dict):
        raise LabError(f"A link is {entry!r}, not a JSON object.", "Send [{...}, {...}].", EXIT_USAGE)
    known = [field.name for field in fields(LinkSettings)]
    for name in entry:
        if name not in known:
            raise LabError(f"A link has no {name!r}.", f"Known are {', '.join(known)}.", EXIT_USAGE)
    for name in ("peer", "direction"):
        if name not in entry:
            raise LabError(f"A link has no {name}.", f"Each link needs {name}.", EXIT_USAGE)
    link = LinkSettings(**entry)
    return LinkSettings(**{**entry, "rate_kbit": int(link.rate_kbit)})


def _wrong(name: str, value: object, expected: str) -> LabError:
    return LabError(
        f"{name}={value!r} is no link: expected {expected}.",
        f"Mend {name} (LINK_{name.upper()} in the environment).",
        EXIT_USAGE,
    )


def _one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise _wrong(name, value, "one of " + ", ".join(allowed))


def _number(name: str, value: object, most: int, unit: str) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise _wrong(name, value, f"a number of {unit}")
    if not 0 <= value <= most:
        raise _wrong(name, value, f"0 to {most} {unit}")


def _float(given: Mapping[str, str], name: str) -> float:
    try:
        return float(given.get(name, "0"))
    except ValueError:
        raise LabError(f"{name}={given[name]!r} is no number.", f"Mend {name}, e.g. {name}=5.", EXIT_USAGE) from None


def _switch(given: Mapping[str, str], name: str, default: bool) -> bool:
    text = given.get(name, "on" if default else "off").lower()
    if text not in ("on", "off"):
        raise LabError(f"{name}={text!r}: expected on or off.", f"Mend {name}.", EXIT_USAGE)
    return text == "on"
