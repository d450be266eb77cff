"""What the proxy did to which message: the known truth for a report."""

from dataclasses import dataclass, field

from support.mqtt_packets import PUBLISH
from support.mqtt_proxy.packets import Packet
from support.mqtt_proxy.rules import DELAY, DISCONNECT, DUPLICATE, PAIRING, STALL, Rule


@dataclass(slots=True, eq=False)
class Injection:
    """One rule applied to one packet; the proxy fills in the times as they happen.

    `other` is a duplicate's copy, or the packet that overtook or joined this one. `from_ns` is the start of a stall
    or the time of a reset, `until_ns` the end of a stall.
    """

    rule_number: int
    rule: Rule
    index: int
    packet: Packet
    refused: str = ""
    other: Packet | None = None
    from_ns: int | None = None
    until_ns: int | None = None

    def refuse(self, reason: str) -> None:
        self.refused = self.refused or reason

    @property
    def sequence(self) -> int | None:
        return self.packet.sequence

    @property
    def held_ns(self) -> int:
        """Return how long the proxy held a packet that it forwarded."""
        assert self.packet.forwarded_ns is not None
        return self.packet.forwarded_ns - self.packet.arrived_ns

    @property
    def why_not_applied(self) -> str:
        """Return "" when the fault happened, as judged by the packets' times."""
        if self.refused:
            return self.refused
        needed: tuple[int | None, ...] = ()
        if self.rule.impairment == DELAY:
            needed = (self.packet.forwarded_ns,)
        elif self.rule.impairment in (DUPLICATE, *PAIRING):
            needed = (self.packet.forwarded_ns, self.other and self.other.forwarded_ns)
        elif self.rule.impairment in (STALL, DISCONNECT):
            needed = (self.from_ns,)
        return "the connection ended first" if None in needed else ""


@dataclass
class Record:
    """All injections of a proxy's life, what its connections left undelivered, and other events."""

    rules: list[Rule]
    matched: list[int] = field(default_factory=list)
    injections: list[Injection] = field(default_factory=list)
    # (direction, packet) of each PUBLISH that arrived and could not leave; a lost one is not in here.
    undelivered: list[tuple[str, Packet]] = field(default_factory=list)
    # (monotonic ns, connection, what happened)
    events: list[tuple[int, int, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.matched = self.matched or [0] * len(self.rules)

    def injected(self, impairment: str, rule: int | None = None) -> list[Injection]:
        """Return the injections of one kind, of all rules or of one, applied or not, in order of arrival."""
        return [i for i in self.injections if i.rule.impairment == impairment and rule in (None, i.rule_number)]

    def applied(self, impairment: str, rule: int | None = None) -> list[Injection]:
        """Return those that really happened."""
        return [injection for injection in self.injected(impairment, rule) if not injection.why_not_applied]

    def sequences(self, impairment: str, rule: int | None = None) -> list[int | None]:
        """Return the sequence numbers of the messages that it happened to."""
        return [injection.sequence for injection in self.applied(impairment, rule)]

    def undelivered_sequences(self, direction: str) -> list[int | None]:
        """Return the sequence numbers of messages that arrived but whose connection ended."""
        return [packet.sequence for found, packet in self.undelivered if found == direction]

    def leave_undelivered(self, direction: str, packets: list[Packet]) -> None:
        self.undelivered += [(direction, packet) for packet in packets if packet.kind == PUBLISH]
