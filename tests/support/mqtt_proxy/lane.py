"""Scheduling: which packet leaves when. No socket and no clock in here; the caller says what time it is."""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass, field
from enum import Enum, auto

from support.mqtt_proxy.framing import DISCONNECT, Packet, topic_matches
from support.mqtt_proxy.ledger import Injection, Ledger
from support.mqtt_proxy.rules import Direction, Impairment, Rule, Scope

# A stall is remembered for this long after its end, so that what waited is still told apart.
STALL_MEMORY_NS = 10_000_000_000


class Step(Enum):
    """What to do with the head of a lane once it is due."""

    FORWARD = auto()
    END = auto()
    RESET = auto()


@dataclass(slots=True, eq=False)
class Departure:
    """One thing that leaves a lane: a packet, the source's end of stream, or a reset of the connection."""

    step: Step
    packet: Packet | None = None
    cause: Injection | None = None


@dataclass(slots=True)
class Verdict:
    """What all rules together want done with one packet; the first rule of a kind has it."""

    delay_ns: int = 0
    may_overtake: bool = False
    picked: dict[Impairment, Injection] = field(default_factory=dict)
    held_by: RuleCounter | None = None


class RuleCounter:
    """One rule with its count of matching packets and its own random numbers."""

    def __init__(self, number: int, rule: Rule, ledger: Ledger) -> None:
        self.number = number
        self.rule = rule
        self._ledger = ledger
        self._indexes = frozenset(rule.indexes)
        self._random = random.Random(rule.seed)
        self._is_exact = not set(rule.topic) & set("+#")

    def matches(self, packet: Packet) -> bool:
        if not packet.is_publish:
            return False
        if self._is_exact:
            return packet.topic == self.rule.topic
        return topic_matches(self.rule.topic, packet.topic)

    def count(self) -> int:
        """The index of the matching packet that is just being judged."""
        index = self._ledger.matched[self.number]
        self._ledger.matched[self.number] = index + 1
        return index

    def picks(self, index: int) -> bool:
        rule = self.rule
        # The draw comes first and always, so that a seed picks the same packets whatever else is picked.
        drawn = rule.probability > 0 and self._random.random() < rule.probability
        return drawn or index in self._indexes or (rule.every > 0 and (index + 1) % rule.every == 0)

    def draw_delay_ns(self) -> int:
        delay_us = self.rule.delay_us
        if self.rule.jitter_us:
            delay_us += self._random.uniform(0, self.rule.jitter_us)
        return round(delay_us * 1000)


class Link:
    """One direction of the link: its rules and stalls, shared by every connection's lane."""

    def __init__(self, direction: Direction, ledger: Ledger) -> None:
        self.direction = direction
        self.ledger = ledger
        self._counters = [
            RuleCounter(number, rule, ledger) for number, rule in enumerate(ledger.rules) if rule.direction is direction
        ]
        self._stalls: list[tuple[tuple[int, int], Injection]] = []
        self._order = 0

    def next_order(self) -> int:
        self._order += 1
        return self._order

    def judge(self, packet: Packet) -> Verdict:
        verdict = Verdict()
        for counter in self._counters:
            matches = counter.matches(packet)
            if counter.rule.impairment is Impairment.DELAY:
                self._judge_delay(counter, packet, matches, verdict)
            elif matches and counter.picks(index := counter.count()):
                self._pick(counter, packet, index, verdict)
        return verdict

    def open_stall(self, injection: Injection, due_ns: int, order: int) -> None:
        """From this place in the order of departure on, nothing leaves until the stall is over."""
        injection.from_ns = self.gate(due_ns, order)
        injection.until_ns = injection.from_ns + round(injection.rule.stall_ms * 1_000_000)
        self._stalls = [
            stall for stall in self._stalls if (stall[1].until_ns or 0) + STALL_MEMORY_NS > injection.from_ns
        ]
        self._stalls.append(((injection.from_ns, order), injection))

    def gate(self, due_ns: int, order: int) -> int:
        """When something with this due time may really leave."""
        for start, injection in self._stalls:
            until_ns = injection.until_ns or 0
            if start <= (due_ns, order) and due_ns < until_ns:
                due_ns = until_ns
        return due_ns

    def note_waited(self, packet: Packet, due_ns: int, order: int) -> None:
        """Writes a message into the stalls that held it back."""
        for start, injection in self._stalls:
            until_ns = injection.until_ns or 0
            if start <= (due_ns, order) and due_ns < until_ns:
                injection.waited.append(packet)
                due_ns = until_ns

    def _judge_delay(self, counter: RuleCounter, packet: Packet, matches: bool, verdict: Verdict) -> None:
        if not matches and counter.rule.scope is Scope.MATCHING:
            return
        verdict.delay_ns += counter.draw_delay_ns()
        if matches:
            self.ledger.inject(Injection(counter.number, counter.rule, counter.count(), packet))
            verdict.may_overtake |= not counter.rule.keep_order and not _why_untouchable(packet)

    def _pick(self, counter: RuleCounter, packet: Packet, index: int, verdict: Verdict) -> None:
        impairment = counter.rule.impairment
        injection = self.ledger.inject(Injection(counter.number, counter.rule, index, packet))
        if impairment in (Impairment.LOSS, Impairment.DUPLICATE, Impairment.REORDER):
            injection.refuse(_why_untouchable(packet))
        if earlier := verdict.picked.get(impairment):
            injection.refuse(f"rule {earlier.rule_number} had picked it already")
        if not injection.refused:
            verdict.picked[impairment] = injection
            if impairment is Impairment.REORDER:
                verdict.held_by = counter


@dataclass(slots=True)
class _Held:
    """A packet that waits for the next one of its rule to overtake it, with its copy if there is one."""

    packets: list[Packet]
    due_ns: int
    injection: Injection
    counter: RuleCounter


class Lane:
    """The packets of one connection and one direction, from arrival to departure."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._heap: list[tuple[int, int, Departure]] = []
        self._held: _Held | None = None
        self._latest_due_ns = 0
        self._latest_ordered_due_ns = 0
        self.queued_bytes = 0

    def admit(self, packet: Packet) -> None:
        """Takes a packet that has just arrived and plans its departure as the rules say."""
        verdict = self._link.judge(packet)
        picked = verdict.picked
        if packet.kind == DISCONNECT:
            self._release_held("no later packet came before the client's DISCONNECT", packet.arrived_ns)
        due_ns = self._due_ns(packet.arrived_ns + verdict.delay_ns, verdict.may_overtake)
        if stall := picked.get(Impairment.STALL):
            self._link.open_stall(stall, due_ns, self._link.next_order())
        if loss := picked.get(Impairment.LOSS):
            self._lose(packet, loss, picked)
        else:
            self._plan(packet, due_ns, verdict)
        if disconnect := picked.get(Impairment.DISCONNECT):
            self._push(self._latest_due_ns, Departure(Step.RESET, cause=disconnect))

    def end(self, step: Step, now_ns: int) -> None:
        """The source sends no more: its end or reset follows what it sent, with the link's delay."""
        self._release_held("no later packet came on this connection", now_ns)
        # Judging an empty packet asks for the delay of whatever is no PUBLISH.
        delay_ns = self._link.judge(Packet(b"", now_ns)).delay_ns
        self._push(self._due_ns(now_ns + delay_ns, False), Departure(step))

    def next_due_ns(self) -> int | None:
        """When the first departure is due; None if nothing waits."""
        if not self._heap:
            return None
        due_ns, order, _ = self._heap[0]
        return self._link.gate(due_ns, order)

    def pop(self, now_ns: int) -> Departure | None:
        """The first departure if it is due now."""
        due_ns = self.next_due_ns()
        if due_ns is None or due_ns > now_ns:
            return None
        planned_ns, order, departure = heapq.heappop(self._heap)
        if departure.packet:
            departure.packet.due_ns = due_ns
            self.queued_bytes -= len(departure.packet.raw)
            if due_ns != planned_ns and departure.packet.is_publish:
                self._link.note_waited(departure.packet, planned_ns, order)
        return departure

    def abandon(self) -> list[Packet]:
        """Empties the lane when it cannot deliver any more; says what was in it, in order."""
        packets = [departure.packet for _, _, departure in sorted(self._heap, key=lambda item: item[:2])]
        if self._held:
            packets += self._held.packets
        self._heap, self._held, self.queued_bytes = [], None, 0
        return [packet for packet in packets if packet]

    def _plan(self, packet: Packet, due_ns: int, verdict: Verdict) -> None:
        packets = [packet]
        if duplicate := verdict.picked.get(Impairment.DUPLICATE):
            duplicate.other = packet.copy()
            packets.append(duplicate.other)
        if self._may_hold(verdict) and verdict.held_by:
            injection = verdict.picked[Impairment.REORDER]
            self._held = _Held(packets, due_ns, injection, verdict.held_by)
            self.queued_bytes += sum(len(held.raw) for held in packets)
            return
        for leaving in packets:
            self._push_packet(leaving, due_ns)
        if self._held and self._held.counter.matches(packet):
            self._held.injection.other = packet
            self._release_held("", due_ns)

    def _may_hold(self, verdict: Verdict) -> bool:
        reorder = verdict.picked.get(Impairment.REORDER)
        if reorder and self._held:
            reorder.refuse("it overtakes the packet before it")
        elif reorder and Impairment.DISCONNECT in verdict.picked:
            reorder.refuse("the connection is cut after it")
        return reorder is not None and not reorder.refused

    def _release_held(self, why_not_swapped: str, due_ns: int) -> None:
        if not self._held:
            return
        held, self._held = self._held, None
        if why_not_swapped:
            held.injection.refuse(why_not_swapped)
        for packet in held.packets:
            self.queued_bytes -= len(packet.raw)
            self._push_packet(packet, self._due_ns(max(held.due_ns, due_ns), False))

    def _lose(self, packet: Packet, loss: Injection, picked: dict[Impairment, Injection]) -> None:
        for impairment in (Impairment.DUPLICATE, Impairment.REORDER):
            if injection := picked.get(impairment):
                injection.refuse(f"rule {loss.rule_number} lost it")
        packet.raw = b""

    def _due_ns(self, wanted_ns: int, may_overtake: bool) -> int:
        """The due time that keeps the order: after everything before, or after all that keeps order."""
        due_ns = max(wanted_ns, self._latest_ordered_due_ns if may_overtake else self._latest_due_ns)
        self._latest_due_ns = max(self._latest_due_ns, due_ns)
        if not may_overtake:
            self._latest_ordered_due_ns = due_ns
        return due_ns

    def _push_packet(self, packet: Packet, due_ns: int) -> None:
        self.queued_bytes += len(packet.raw)
        self._push(due_ns, Departure(Step.FORWARD, packet))

    def _push(self, due_ns: int, departure: Departure) -> None:
        heapq.heappush(self._heap, (due_ns, self._link.next_order(), departure))


def _why_untouchable(packet: Packet) -> str:
    """Why a message may not be lost, copied or overtaken; empty if it may."""
    if packet.qos:
        return f"QoS {packet.qos}: TCP and the acknowledgement would both have to fail"
    if packet.uses_alias:
        return "its topic alias ties it to the packets around it"
    return ""
