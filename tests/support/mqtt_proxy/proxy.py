"""The proxy's loop: one thread that accepts, reads, sleeps until something is due, and forwards it."""

import ctypes
import gc
import select
import socket
import time
from multiprocessing.connection import Connection as Channel
from typing import Any

from support.mqtt_proxy.pipe import Connection, close
from support.mqtt_proxy.queue import Departure, Direction
from support.mqtt_proxy.record import Record
from support.mqtt_proxy.rules import TO_BROKER, TO_CLIENT, Rule

Address = tuple[str, int]
PR_SET_TIMERSLACK = 29
# Waking from sleep takes about this long, so the last stretch is polled.
SPIN_NS = 60_000
# select() may oversleep by a thousandth of its timeout.
OVERSLEEP_DIVISOR = 500


def serve(channel: Channel, listen: Address, to: Address, rules: list[Rule]) -> None:
    """Run the proxy in this process until `channel` is written to or closed; its port, then its record, go there."""
    with socket.create_server(listen, backlog=128) as listener:
        listener.setblocking(False)
        # The kernel's default lets a wake-up come 50 us late.
        ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
        gc.collect()
        gc.disable()
        channel.send(listener.getsockname()[1])
        loop = Loop(listener, to, rules)
        while not loop.turn(channel):
            pass
        channel.send(loop.ended())


class Loop:
    """The connections and directions of a proxy."""

    def __init__(self, listener: socket.socket, to: Address, rules: list[Rule]) -> None:
        self.record = Record(rules)
        self._directions = {name: Direction(name, self.record) for name in (TO_BROKER, TO_CLIENT)}
        self._listener, self._to = listener, to
        self._connections: dict[int, Connection] = {}
        self._accepted = 0
        self._refused_until_ns = 0

    def turn(self, channel: Channel) -> bool:
        """Forward what is due, then wait for bytes or for the next departure; return whether `channel` is readable."""
        timeout_s = self._forward_due()
        pipes = [pipe for connection in self._connections.values() for pipe in connection.pipes]
        by_source = {pipe.source: pipe for pipe in pipes if pipe.reading}
        readers: list[Any] = [self._listener, channel, *by_source]
        # A sink with room again is written to by the next turn.
        readable, _, _ = select.select(readers, [pipe.sink for pipe in pipes if pipe.blocked], [], timeout_s)
        for ready in readable:
            if ready is self._listener:
                self._accept()
            elif ready is not channel:
                by_source[ready].receive()
        return channel in readable

    def ended(self) -> Record:
        """Close all connections; return the record."""
        for number in list(self._connections):
            self._close(number, "the proxy stopped", reset=False)
        return self.record

    def _forward_due(self) -> float | None:
        """Forward what is due; return for how many seconds nothing will be."""
        dues = []
        for number, connection in list(self._connections.items()):
            if reset := connection.forward_due():
                self._reset(number, reset)
            elif all(pipe.ended for pipe in connection.pipes):
                self._close(number, "closed", reset=False)
            elif (due_ns := connection.next_due_ns()) is not None:
                dues.append(due_ns)
        if not dues:
            return None
        remaining_ns = min(dues) - time.monotonic_ns()
        return max(0, remaining_ns - SPIN_NS - remaining_ns // OVERSLEEP_DIVISOR) / 1e9

    def _reset(self, number: int, departure: Departure) -> None:
        cause, now_ns = departure.cause, time.monotonic_ns()
        if cause is None:
            self._close(number, "reset", reset=True)
            return
        cause.from_ns = now_ns
        self._refused_until_ns = now_ns + round(cause.rule.away_ms * 1e6)
        self._close(number, f"reset by rule {cause.rule_number}", reset=True)

    def _close(self, number: int, why: str, *, reset: bool) -> None:
        self._connections.pop(number).close(reset=reset)
        self._event(number, why)

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        number, self._accepted = self._accepted, self._accepted + 1
        try:
            if time.monotonic_ns() < self._refused_until_ns:
                raise ConnectionRefusedError("by a disconnect rule")
            broker = socket.create_connection(self._to)
        except OSError as error:
            self._event(number, f"refused: {error}")
            close(client, reset=True)
            return
        self._connections[number] = Connection(number, client, broker, self._directions)
        self._event(number, "accepted")

    def _event(self, number: int, what: str) -> None:
        self.record.events.append((time.monotonic_ns(), number, what))
