"""Which packet leaves when. No socket and no clock: the caller passes the time."""

import random
from collections import deque
from dataclasses import dataclass, field
from enum import Enum, auto

from support import mqtt_packets
from support.mqtt_proxy import rules
from support.mqtt_proxy.packets import Packet
from support.mqtt_proxy.record import Injection, Record
from support.mqtt_proxy.rules import Rule


class Step(Enum):
    """What to do with a departure that is due."""

    FORWARD = auto()
    END = auto()
    RESET = auto()


@dataclass(slots=True, eq=False)
class Departure:
    """Packets for one write, the source's end of stream, or a reset of the connection; `due_ns` before any stall."""

    due_ns: int
    order: int
    step: Step
    packets: list[Packet] = field(default_factory=list)
    cause: Injection | None = None


class Direction:
    """One direction through the proxy: its rules, counts and stalls, shared by all connections."""

    def __init__(self, name: str, record: Record) -> None:
        self.name = name
        self.record = record
        own = [(number, rule) for number, rule in enumerate(record.rules) if rule.direction == name]
        self._rules = [(number, rule, random.Random(rule.seed)) for number, rule in own]
        self._stalls: list[tuple[int, int, int]] = []
        self._order = 0

    def next_order(self) -> int:
        self._order += 1
        return self._order

    def judge(self, packet: Packet) -> tuple[int, dict[str, Injection]]:
        """Return the delay in ns and the other injections by kind; the first rule of a kind has the packet."""
        delay_ns, picked = 0, {}
        for number, rule, chance in self._rules:
            matches = packet.kind == mqtt_packets.PUBLISH and packet.topic == rule.topic
            if rule.impairment == rules.DELAY:
                jitter_us = chance.uniform(0, rule.jitter_us) if rule.jitter_us else 0
                delay_ns += round((rule.delay_us + jitter_us) * 1000)
            if not matches:
                continue
            index = self.record.matched[number]
            self.record.matched[number] += 1
            if rule.impairment == rules.DELAY or _picks(rule, index, chance):
                injection = Injection(number, rule, index, packet)
                self.record.injections.append(injection)
                self._settle(injection, picked)
        return delay_ns, picked

    def stall(self, injection: Injection, due_ns: int) -> None:
        """Let nothing leave from this place in the order of departure on, until the stall is over."""
        order = self.next_order()
        injection.from_ns = start_ns = self.gate(due_ns, order)
        injection.until_ns = start_ns + round(injection.rule.stall_ms * 1e6)
        self._stalls.append((start_ns, order, injection.until_ns))

    def gate(self, due_ns: int, order: int) -> int:
        """Return when a departure with this due time may leave."""
        for start_ns, stall_order, until_ns in self._stalls:
            if (start_ns, stall_order) <= (due_ns, order) and due_ns < until_ns:
                due_ns = until_ns
        return due_ns

    @staticmethod
    def _settle(injection: Injection, picked: dict[str, Injection]) -> None:
        kind, packet = injection.rule.impairment, injection.packet
        if kind in (rules.LOSS, rules.DUPLICATE, rules.REORDER) and packet.qos:
            injection.refuse(f"QoS {packet.qos}: TCP and the acknowledgement would both have to fail")
        if earlier := picked.get(kind):
            injection.refuse(f"rule {earlier.rule_number} had picked it already")
        if not injection.refused and kind != rules.DELAY:
            picked[kind] = injection


@dataclass(slots=True)
class _Held:
    """A packet, with its copy if there is one, that waits for the next match of its rule."""

    packets: list[Packet]
    due_ns: int
    injection: Injection


class PacketQueue:
    """The packets of one connection in one direction, from arrival to departure."""

    def __init__(self, direction: Direction) -> None:
        self._direction = direction
        self._departures: deque[Departure] = deque()
        self._held: _Held | None = None
        self._latest_ns = 0

    def admit(self, packet: Packet) -> None:
        """Plan the departure of a packet that has just arrived."""
        delay_ns, picked = self._direction.judge(packet)
        if packet.kind == mqtt_packets.DISCONNECT:
            self._release("no later packet came before the client's DISCONNECT", packet.arrived_ns)
        due_ns = self._in_order(packet.arrived_ns + delay_ns)
        if stall := picked.get(rules.STALL):
            self._direction.stall(stall, due_ns)
        if loss := picked.get(rules.LOSS):
            for injection in picked.values():
                if injection.rule.impairment in (rules.DUPLICATE, *rules.PAIRING):
                    injection.refuse(f"rule {loss.rule_number} lost it")
        else:
            self._plan(packet, due_ns, picked)
        if cut := picked.get(rules.DISCONNECT):
            self._push(due_ns, Step.RESET, cause=cut)

    def end(self, step: Step, now_ns: int) -> None:
        """Plan the source's end or reset, after all it sent and with the direction's delay."""
        self._release("no later packet came on this connection", now_ns)
        delay_ns, _ = self._direction.judge(Packet(b"", now_ns))
        self._push(self._in_order(now_ns + delay_ns), step)

    def next_due_ns(self) -> int | None:
        """Return when the first departure is due; None if nothing waits."""
        if not self._departures:
            return None
        first = self._departures[0]
        due_ns = self._direction.gate(first.due_ns, first.order)
        if first.cause is None:
            return due_ns
        return max(due_ns, first.cause.packet.forwarded_ns or 0) + round(first.cause.rule.grace_ms * 1e6)

    def pop(self, now_ns: int) -> Departure | None:
        """Return the first departure if it is due."""
        due_ns = self.next_due_ns()
        if due_ns is None or due_ns > now_ns:
            return None
        departure = self._departures.popleft()
        for packet in departure.packets:
            packet.due_ns = due_ns
        return departure

    def abandon(self) -> list[Packet]:
        """Empty the queue; return its packets in order."""
        left = [packet for departure in self._departures for packet in departure.packets]
        left += self._held.packets if self._held else []
        self._departures.clear()
        self._held = None
        return left

    def _plan(self, packet: Packet, due_ns: int, picked: dict[str, Injection]) -> None:
        leaving = [packet]
        if duplicate := picked.get(rules.DUPLICATE):
            duplicate.other = packet.copy()
            leaving.append(duplicate.other)
        if held := self._may_hold(picked):
            self._held = _Held(leaving, due_ns, held)
            return
        pairs = self._held and packet.kind == mqtt_packets.PUBLISH and packet.topic == self._held.injection.rule.topic
        if self._held and pairs and self._held.injection.rule.impairment == rules.MERGE:
            self._held.injection.other = packet
            self._push(due_ns, Step.FORWARD, self._held.packets + leaving)
            self._held = None
            return
        self._push_each(due_ns, leaving)
        if self._held and pairs:
            self._held.injection.other = packet
            self._release("", due_ns)

    def _may_hold(self, picked: dict[str, Injection]) -> Injection | None:
        """Return the injection that holds the packet back for the next one."""
        for injection in (picked[kind] for kind in rules.PAIRING if kind in picked):
            if self._held:
                injection.refuse("it ends the pair before it")
            elif rules.DISCONNECT in picked:
                injection.refuse("the connection is cut after it")
            else:
                return injection
        return None

    def _release(self, why_alone: str, due_ns: int) -> None:
        if not self._held:
            return
        held, self._held = self._held, None
        if why_alone:
            held.injection.refuse(why_alone)
        self._push_each(self._in_order(max(held.due_ns, due_ns)), held.packets)

    def _in_order(self, wanted_ns: int) -> int:
        """Return a due time that lets nothing overtake."""
        self._latest_ns = max(self._latest_ns, wanted_ns)
        return self._latest_ns

    def _push_each(self, due_ns: int, leaving: list[Packet]) -> None:
        for packet in leaving:
            self._push(due_ns, Step.FORWARD, [packet])

    def _push(
        self, due_ns: int, step: Step, leaving: list[Packet] | None = None, cause: Injection | None = None
    ) -> None:
        order = self._direction.next_order()
        self._departures.append(Departure(due_ns, order, step, leaving or [], cause))


def _picks(rule: Rule, index: int, chance: random.Random) -> bool:
    # Draw first and always: a seed then picks the same packets whatever else is picked.
    drawn = rule.probability > 0 and chance.random() < rule.probability
    return drawn or index in rule.indexes or (rule.every > 0 and (index + 1) % rule.every == 0)
