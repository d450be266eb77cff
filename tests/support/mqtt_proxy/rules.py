"""What to inject where: rules, checked before anything runs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import MISSING, asdict, dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from looplab.errors import EXIT_USAGE, LabError

Choice = TypeVar("Choice", bound=StrEnum)


class Direction(StrEnum):
    TO_BROKER = "to_broker"
    TO_CLIENT = "to_client"


class Impairment(StrEnum):
    DELAY = "delay"
    LOSS = "loss"
    DUPLICATE = "duplicate"
    REORDER = "reorder"
    STALL = "stall"
    DISCONNECT = "disconnect"


class Scope(StrEnum):
    """What a delay holds back: the whole direction, as a longer cable does, or the matching packets only."""

    DIRECTION = "direction"
    MATCHING = "matching"


# Seen from a controller: requests go to the broker, answers come from it.
DEFAULT_TOPICS = {Direction.TO_BROKER: "request/", Direction.TO_CLIENT: "answer/"}

PICKING_FIELDS = {"indexes", "every"}
FIELDS_OF_IMPAIRMENT = {
    Impairment.DELAY: {"delay_us", "jitter_us", "keep_order", "scope", "seed"},
    Impairment.LOSS: PICKING_FIELDS | {"probability", "seed"},
    Impairment.DUPLICATE: PICKING_FIELDS,
    Impairment.REORDER: PICKING_FIELDS,
    Impairment.STALL: PICKING_FIELDS | {"stall_ms"},
    Impairment.DISCONNECT: PICKING_FIELDS | {"grace_ms"},
}
COMMON_FIELDS = {"impairment", "direction", "topic"}
LONGEST_US = 60_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One impairment of one direction; bad values raise LabError at once.

    topic        MQTT topic filter of the PUBLISH packets that count; default `request/` to the broker,
                 `answer/` to the client (a proxy beside the bridge needs the other one)
    indexes      which matching packets are picked, from 0
    every        picks each Nth matching packet: indexes N-1, 2N-1, ...
    probability  picks each matching packet with this probability, from a generator seeded with `seed`
    delay_us     constant delay; 0 injects nothing and writes down when each matching packet passed
    jitter_us    further delay, uniform from 0 to this, from a generator seeded with `seed`
    keep_order   False lets a matching QoS 0 packet with a shorter jitter overtake an earlier one
    scope        what a delay holds back, see Scope; packets outside it still never overtake a delayed one
    stall_ms     from the picked packet on, nothing passes in this direction for this long
    grace_ms     time between forwarding the picked packet and resetting both sides, so that they can read it
    """

    impairment: Impairment
    direction: Direction
    topic: str = ""
    indexes: tuple[int, ...] = ()
    every: int = 0
    probability: float = 0.0
    seed: int = 1
    delay_us: float = 0.0
    jitter_us: float = 0.0
    keep_order: bool = True
    scope: Scope = Scope.DIRECTION
    stall_ms: float = 0.0
    grace_ms: float = 5.0

    def __post_init__(self) -> None:
        self._set("impairment", _choice(Impairment, self.impairment, "impairment"))
        self._set("direction", _choice(Direction, self.direction, "direction"))
        self._set("scope", _choice(Scope, self.scope, "scope"))
        if self.topic == "":
            self._set("topic", DEFAULT_TOPICS[self.direction])
        self._check_types()
        self._check_topic()
        self._check_fields_fit()
        self._check_values()

    def to_dict(self) -> dict[str, Any]:
        """The rule as it stands in a rules file, without what means nothing to its impairment."""
        meant = COMMON_FIELDS | FIELDS_OF_IMPAIRMENT[self.impairment]
        found = {name: value for name, value in asdict(self).items() if name in meant}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _check_types(self) -> None:
        for name in ("every", "seed"):
            value = getattr(self, name)
            _require(_is_integer(value), f"`{name}` is {value!r}, not a whole number")
        for name in ("probability", "delay_us", "jitter_us", "stall_ms", "grace_ms"):
            value = getattr(self, name)
            _require(_is_number(value), f"`{name}` is {value!r}, not a number")
        _require(isinstance(self.keep_order, bool), f"`keep_order` is {self.keep_order!r}, not true or false")
        _require(isinstance(self.topic, str), f"`topic` is {self.topic!r}, not text")
        _require(
            isinstance(self.indexes, list | tuple) and all(map(_is_integer, self.indexes)),
            f"`indexes` is {self.indexes!r}, not a list of whole numbers",
        )
        self._set("indexes", tuple(sorted(set(self.indexes))))

    def _check_topic(self) -> None:
        levels = self.topic.split("/")
        good = all(level in ("+", "#") or not set(level) & set("+#") for level in levels)
        _require(
            good and "#" not in levels[:-1] and "\0" not in self.topic,
            f"`topic` is {self.topic!r}, no MQTT topic filter",
            "`+` and `#` stand for whole levels between slashes, and `#` only for the last",
        )

    def _check_fields_fit(self) -> None:
        meant = COMMON_FIELDS | FIELDS_OF_IMPAIRMENT[self.impairment]
        for field in fields(self):
            if field.name not in meant and getattr(self, field.name) != field.default:
                raise _bad_rule(
                    f"`{field.name}` means nothing to a {self.impairment} rule",
                    f"leave it out; a {self.impairment} rule takes {_listed(meant)}",
                )

    def _check_values(self) -> None:
        _require(all(index >= 0 for index in self.indexes), "`indexes` holds a number below 0")
        _require(self.every >= 0, f"`every` is {self.every}, less than 1")
        _require(0 <= self.probability <= 1, f"`probability` is {self.probability}, not between 0 and 1")
        for name, unit_us in (("delay_us", 1), ("jitter_us", 1), ("stall_ms", 1000), ("grace_ms", 1000)):
            value = getattr(self, name)
            _require(0 <= value * unit_us <= LONGEST_US, f"`{name}` is {value}, not between 0 and a minute")
        if self.impairment is Impairment.STALL:
            _require(self.stall_ms > 0, "the stall rule has no `stall_ms`", "say how long, such as 300")
        if self.impairment is not Impairment.DELAY:
            self._check_picks()
        if self.impairment is Impairment.REORDER:
            self._check_swaps()
        if not self.keep_order and not self.jitter_us:
            remedy = "set one or drop the other"
            raise _bad_rule("`keep_order: false` does nothing without `jitter_us`", remedy)

    def _check_picks(self) -> None:
        picks = FIELDS_OF_IMPAIRMENT[self.impairment] & {"indexes", "every", "probability"}
        _require(
            bool(self.indexes or self.every or self.probability),
            f"the {self.impairment} rule picks no packet",
            f"set one of {_listed(picks)}",
        )

    def _check_swaps(self) -> None:
        adjacent = any(index + 1 in self.indexes for index in self.indexes)
        _require(
            self.every != 1 and not adjacent,
            "the reorder rule swaps neighbours that overlap",
            "each index is swapped with the next one: keep two apart, and `every` at 2 or more",
        )


def parse_rules(document: object, where: str = "the rules") -> list[Rule]:
    """Rules from a parsed JSON list of objects; an error says which rule it is in."""
    if not isinstance(document, list):
        raise _bad_rule(f"{where}: not a list of rules", 'write [{"impairment": "loss", ...}, ...]')
    return [_parse_rule(entry, f"{where}, rule {number}") for number, entry in enumerate(document)]


def load_rules(path: Path) -> list[Rule]:
    """Rules from a JSON file."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise _bad_rule(f"the rules file {path} cannot be read: {error.strerror}", "check --rules") from error
    except ValueError as error:
        raise _bad_rule(f"the rules file {path} is no JSON: {error}", "mend it at that place") from error
    return parse_rules(document, str(path))


def _parse_rule(entry: object, where: str) -> Rule:
    if not isinstance(entry, dict):
        raise _bad_rule(f"{where}: {entry!r} is no object", 'write {"impairment": ..., "direction": ...}')
    names = {field.name for field in fields(Rule)}
    needed = {field.name for field in fields(Rule) if field.default is MISSING}
    if unknown := set(entry) - names:
        raise _bad_rule(f"{where}: unknown field {_listed(unknown)}", f"known are {_listed(names)}")
    if missing := needed - set(entry):
        remedy = "each rule needs an impairment and a direction"
        raise _bad_rule(f"{where}: {_listed(missing)} is missing", remedy)
    try:
        return Rule(**entry)
    except LabError as error:
        raise LabError(f"{where}: {error.message}", error.remedy, error.exit_code) from error


def _choice(kind: type[Choice], value: str, name: str) -> Choice:
    try:
        return kind(value)
    except ValueError as error:
        raise _bad_rule(f"`{name}` is {value!r}", f"choose one of {_listed(kind)}") from error


def _require(good: bool, message: str, remedy: str = "mend this rule") -> None:
    if not good:
        raise _bad_rule(message, remedy)


def _bad_rule(message: str, remedy: str) -> LabError:
    return LabError(message, remedy, EXIT_USAGE)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))
