"""Inject exactly known faults into an MQTT stream between clients and a broker, and record each one."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import socket
import struct
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from looplab.mqtt.packets import PacketBuffer, parse_publish
from support.mqtt_packets import PUBLISH

TO_BROKER, TO_CLIENT = "to_broker", "to_client"
# As a controller sees it.
TOPICS = {TO_BROKER: "request/", TO_CLIENT: "answer/"}
# A request is `E-run-7`, an answer `run,7,status,R,value`.
SEQUENCE = re.compile(rb"[^,]+,(\d+),|[A-Za-z]+-.*-(\d+)\Z", re.DOTALL)
# Both sides get GRACE_S to read the last message before a reset. Packets that are due at once leave STEP_S apart.
GRACE_S, STEP_S = 0.005, 1e-6
Sides = list[asyncio.StreamWriter]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A fault of the PUBLISH packets of one topic in one direction; index 0 is the first, also across reconnects.

    `loss`, `duplicate` (QoS 0); `reorder`, `merge`: with the next packet; `stall`: nothing passes for `stall_ms`;
    `disconnect`: a reset after the packet, then `away_ms` without connections; `delay`: each packet, uniform from 0 to
    `jitter_us`, in order.
    """

    impairment: str
    direction: str
    topic: str = ""
    indexes: tuple[int, ...] = ()
    seed: int = 1
    jitter_us: float = 0.0
    stall_ms: float = 0.0
    away_ms: float = 0.0


@dataclass(eq=False)
class Injection:
    """A rule applied to a message; `other` is the number of the one it met, times are monotonic."""

    rule: Rule
    sequence: int
    arrived_ns: int
    forwarded_ns: int = 0
    other: int = -1
    from_ns: int = 0
    until_ns: int = 0

    @property
    def held_ns(self) -> int:
        return self.forwarded_ns - self.arrived_ns


class ImpairmentProxy:
    """In the `with` block `port` is open; runs in a thread of its own."""

    def __init__(self, to: tuple[str, int], rules: Sequence[Rule] = ()) -> None:
        self._to, self._away_until_s = to, 0.0
        self._injections: list[Injection] = []
        self._rules = [(rule, random.Random(rule.seed)) for rule in rules]
        self._seen = [0] * len(self._rules)
        self._opened: Future[int] = Future()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    def __enter__(self) -> ImpairmentProxy:
        self._thread.start()
        self.port = self._opened.result(10)
        return self

    def __exit__(self, *_error: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def applied(self, impairment: str) -> list[Injection]:
        """Return the injections of one kind that happened, in order of arrival."""
        found = [injection for injection in self._injections if injection.rule.impairment == impairment]
        return [injection for injection in found if injection.forwarded_ns or impairment == "loss"]

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self._opened.set_result(server.sockets[0].getsockname()[1])
        await self._stop.wait()
        server.close()

    async def _connected(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        sides = [client]
        with contextlib.suppress(OSError), contextlib.ExitStack() as ending:
            ending.callback(reset, sides)
            if self._loop.time() < self._away_until_s:
                return
            from_broker, broker = await asyncio.open_connection(*self._to)
            sides.append(broker)
            pumps = (reader, broker, TO_BROKER), (from_broker, client, TO_CLIENT)
            await asyncio.gather(*(self._pump(*pump, sides) for pump in pumps))

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, direction: str, sides: Sides
    ) -> None:
        buffer, due_s = PacketBuffer(), 0.0
        held: tuple[bytes, Injection] | None = None
        while data := await source.read(65536):
            now_s, now_ns = self._loop.time(), time.monotonic_ns()
            for raw in buffer.packets(data):
                sequence, picked, delay_s = self._judge(raw, direction, now_ns)
                due_s = max(due_s + STEP_S, now_s + delay_s)
                if stall := picked.get("stall"):
                    stall.from_ns = round(due_s * 1e9)
                    stall.until_ns = stall.from_ns + round(stall.rule.stall_ms * 1e6)
                    due_s = stall.until_ns / 1e9 + STEP_S
                if pair := picked.get("reorder") or picked.get("merge"):
                    held = raw, pair
                    continue
                pieces = [] if "loss" in picked else [raw, raw] if "duplicate" in picked else [raw]
                if held is not None and sequence is not None:
                    pieces = [held[0] + raw] if held[1].rule.impairment == "merge" else [raw, held[0]]
                    held[1].other = sequence
                    picked, held = {**picked, "pair": held[1]}, None
                for piece in pieces:
                    due_s += STEP_S
                    self._loop.call_at(due_s, self._forward, piece, sink, list(picked.values()), sides)
        self._loop.call_at(due_s + STEP_S, sink.close)
        await sink.wait_closed()

    def _judge(self, raw: bytes, direction: str, now_ns: int) -> tuple[int | None, dict[str, Injection], float]:
        """Return the number of a message that a rule is about, its injections by kind, and its delay in seconds."""
        topic, _, payload = parse_publish(raw) if raw[0] & 0xF0 == PUBLISH else (b"", b"", b"")
        found, sequence, picked, delay_us = SEQUENCE.match(payload), None, {}, 0.0
        for number, (rule, chance) in enumerate(self._rules):
            if found and rule.direction == direction and topic.decode() == (rule.topic or TOPICS[direction]):
                sequence = int(found[1] or found[2])
                self._seen[number] += 1
                if rule.impairment == "delay" or self._seen[number] - 1 in rule.indexes:
                    picked[rule.impairment] = Injection(rule, sequence, now_ns)
                    delay_us += chance.uniform(0, rule.jitter_us)
        self._injections += picked.values()
        return sequence, picked, delay_us / 1e6

    def _forward(self, piece: bytes, sink: asyncio.StreamWriter, injections: list[Injection], sides: Sides) -> None:
        now_ns = time.monotonic_ns()
        sink.write(piece)
        for injection in injections:
            injection.forwarded_ns = now_ns
            if injection.rule.impairment == "disconnect":
                self._loop.call_later(GRACE_S, self._cut, injection, sides)

    def _cut(self, injection: Injection, sides: Sides) -> None:
        injection.from_ns = time.monotonic_ns()
        self._away_until_s = self._loop.time() + injection.rule.away_ms / 1e3
        reset(sides)


def reset(sides: Sides) -> None:
    """End connections with a reset: what is still under way is lost."""
    for side in sides:
        with contextlib.suppress(OSError):
            side.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        side.transport.abort()
