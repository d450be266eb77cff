"""What was injected, packet by packet, and what else happened: the truth a report is compared with."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import Any

from support.mqtt_proxy.framing import Packet
from support.mqtt_proxy.rules import Direction, Impairment, Rule

SCHEMA = 1
CONNECTION_ENDED = "the connection ended first"


@dataclass(slots=True, eq=False)
class Injection:
    """One rule's grip on one packet; times are filled in while they happen."""

    rule_number: int
    rule: Rule
    index: int
    packet: Packet
    refused: str = ""
    other: Packet | None = None
    waited: list[Packet] = field(default_factory=list)
    from_ns: int | None = None
    until_ns: int | None = None

    def refuse(self, reason: str) -> None:
        self.refused = self.refused or reason

    @property
    def why_not_applied(self) -> str:
        """Empty when the impairment really happened; judged from the packets' times, not from the intent."""
        if self.refused:
            return self.refused
        match self.rule.impairment:
            case Impairment.DELAY:
                happened = self.packet.forwarded_ns is not None
            case Impairment.DUPLICATE | Impairment.REORDER:
                happened = _forwarded_both(self.packet, self.other)
            case Impairment.STALL | Impairment.DISCONNECT:
                happened = self.from_ns is not None
            case _:
                happened = True
        return "" if happened else CONNECTION_ENDED

    def to_dict(self) -> dict[str, Any]:
        reason = self.why_not_applied
        entry: dict[str, Any] = {
            "rule": self.rule_number,
            "impairment": str(self.rule.impairment),
            "direction": str(self.rule.direction),
            "index": self.index,
            "applied": not reason,
            "not_applied_because": reason,
            "connection": self.packet.connection,
            "topic": self.packet.topic,
            "qos": self.packet.qos,
            **_identity(self.packet),
            "due_ns": self.packet.due_ns,
            "forwarded_ns": self.packet.forwarded_ns,
        }
        match self.rule.impairment:
            case Impairment.DUPLICATE:
                entry["copy_forwarded_ns"] = self.other.forwarded_ns if self.other else None
            case Impairment.REORDER:
                entry["overtaken_by"] = _passage(self.other) if self.other else None
            case Impairment.STALL:
                entry |= {"stalled_from_ns": self.from_ns, "stalled_until_ns": self.until_ns}
                entry["waited"] = [_passage(packet) for packet in self.waited]
            case Impairment.DISCONNECT:
                entry["reset_ns"] = self.from_ns
        return entry


@dataclass(slots=True)
class Traffic:
    """All that came in on one direction, for any connection and any topic."""

    packets: int = 0
    bytes: int = 0
    publishes: int = 0


class Ledger:
    """Written by the proxy while it runs, rendered once at its end."""

    def __init__(self, rules: list[Rule]) -> None:
        self.rules = rules
        self.matched = [0] * len(rules)
        self.traffic = {direction: Traffic() for direction in Direction}
        self.injections: list[Injection] = []
        self._undelivered: list[tuple[Direction, Packet]] = []
        self._events: list[dict[str, Any]] = []

    def inject(self, injection: Injection) -> Injection:
        self.injections.append(injection)
        return injection

    def undelivered(self, direction: Direction, packet: Packet) -> None:
        """A message that came in and could not go out because its connection ended; not what a rule lost."""
        if packet.is_publish:
            self._undelivered.append((direction, packet))

    def event(self, at_ns: int, connection: int, what: str, detail: str = "") -> None:
        self._events.append({"at_ns": at_ns, "connection": connection, "event": what, "detail": detail})

    def to_dict(self) -> dict[str, Any]:
        entries = [injection.to_dict() for injection in self.injections]
        return {
            "schema": SCHEMA,
            "clock": "CLOCK_MONOTONIC",
            "rules": [self._summary(number, rule, entries) for number, rule in enumerate(self.rules)],
            "injections": entries,
            "undelivered": [
                {
                    "direction": str(direction),
                    "connection": packet.connection,
                    "topic": packet.topic,
                    "qos": packet.qos,
                    **_identity(packet),
                }
                for direction, packet in self._undelivered
            ],
            "traffic": {
                str(direction): {"packets": seen.packets, "bytes": seen.bytes, "publishes": seen.publishes}
                for direction, seen in self.traffic.items()
            },
            "events": self._events,
        }

    def _summary(self, number: int, rule: Rule, entries: list[dict[str, Any]]) -> dict[str, Any]:
        own = [entry for entry in entries if entry["rule"] == number]
        applied = [entry for entry in own if entry["applied"]]
        summary = {
            "rule": rule.to_dict(),
            "matched": self.matched[number],
            "applied": len(applied),
            "not_applied": len(own) - len(applied),
        }
        if rule.impairment is Impairment.DELAY:
            summary["held_us"] = _spread_us([e["forwarded_ns"] - e["arrived_ns"] for e in applied])
            summary["lateness_us"] = _spread_us([e["forwarded_ns"] - e["due_ns"] for e in applied])
        return summary


def _identity(packet: Packet) -> dict[str, Any]:
    return {"sequence": packet.sequence, "head": packet.head, "arrived_ns": packet.arrived_ns}


def _passage(packet: Packet) -> dict[str, Any]:
    return {**_identity(packet), "forwarded_ns": packet.forwarded_ns}


def _forwarded_both(packet: Packet, other: Packet | None) -> bool:
    return packet.forwarded_ns is not None and other is not None and other.forwarded_ns is not None


def _spread_us(values_ns: list[int]) -> dict[str, float] | None:
    if not values_ns:
        return None
    return {
        "min": min(values_ns) / 1000,
        "p50": statistics.median(values_ns) / 1000,
        "max": max(values_ns) / 1000,
    }
