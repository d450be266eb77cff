"""UDP probes that go the way of a link's packets, and the responder at its other end.

Both ends are on one machine and stamp with one CLOCK_MONOTONIC, so each way is measured by itself.
"""

import contextlib
import secrets
import select
import socket
import struct
from collections import OrderedDict
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any

from looplab.errors import MachineError, UsageError
from looplab.link.figures import Delays

ECHO_PORT = 9108
# Token of the series, sequence; then from there: how many arrived so far, when it arrived, when it left (ns).
_PROBE = struct.Struct("!8sIQIQQ")
_TOKEN_BYTES = 8
# Series the responder counts at a time; the count of an older one would restart at 0.
_SERIES = 64
MOST_PROBES = 1_000_000
LEAST_INTERVAL_MS, MOST_INTERVAL_MS = 0.1, 10_000
MOST_BYTES = 1400
WAIT_S = 1.0
# How soon an idle responder notices that it has to stop.
STOP_LOOK_S = 0.5
_LAST_COPY_NS = 50_000_000


class Series:
    """What one series of `count` probes brought back."""

    def __init__(self, count: int) -> None:
        self.token = secrets.token_bytes(_TOKEN_BYTES)
        self.count = count
        self.unsent = 0
        self._back: list[tuple[int, int]] = []
        self._rtt: list[tuple[int, int]] = []
        # By the number of its arrival there; the way there is only known from what comes back.
        self._there: dict[int, tuple[int, int]] = {}
        self._seen: set[int] = set()

    def take(self, data: bytes, now_ns: int) -> bool:
        """Record one answer, ignore any other datagram, and return whether every probe came back."""
        if len(data) < _PROBE.size or data[:_TOKEN_BYTES] != self.token:
            return False
        _, sequence, sent_ns, arrival, arrived_ns, left_ns = _PROBE.unpack_from(data)
        self._rtt.append((sequence, now_ns - sent_ns))
        self._back.append((arrival, now_ns - left_ns))
        self._there[arrival] = (sequence, arrived_ns - sent_ns)
        self._seen.add(sequence)
        return self.complete

    @property
    def complete(self) -> bool:
        return len(self._seen) >= self.count

    def as_json(self) -> dict[str, Any]:
        """Return there_ms, back_ms, rtt_ms; last answers lost on the way back count as lost on the way there."""
        there = [self._there[arrival] for arrival in sorted(self._there)]
        arrivals = max(self._there, default=0)
        return {
            "there_ms": _figures(there, self.count - (arrivals - len(there))),
            "back_ms": _figures(self._back, arrivals),
            "rtt_ms": _figures(self._rtt, self.count),
            "unsent": self.unsent,
        }


def _figures(arrived: Sequence[tuple[int, int]], sent: int) -> dict[str, Any]:
    """Return the figures of one way: (number it was sent with, delay in ns) of each packet in the order of arrival."""
    most, overtaken, seen = -1, 0, set()
    for number, _delay_ns in arrived:
        # A copy that comes late has overtaken no packet.
        overtaken += number < most and number not in seen
        seen.add(number)
        most = max(most, number)
    return {
        **Delays(delay_ns for _, delay_ns in arrived).as_json(),
        "lost": max(0, sent - len(seen)),
        "duplicates": len(arrived) - len(seen),
        "out_of_order": overtaken,
    }


def echo(stopped: Callable[[], bool]) -> None:
    """Answer probes until `stopped`. Raises LabError (exit code 3) if the port cannot be opened."""
    arrivals: OrderedDict[bytes, int] = OrderedDict()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as responder:
        try:
            responder.bind(("0.0.0.0", ECHO_PORT))
        except OSError as error:
            raise MachineError(
                f"UDP port {ECHO_PORT} cannot be opened: {error.strerror}.", "Is another responder there?"
            ) from error
        responder.settimeout(STOP_LOOK_S)
        while not stopped():
            with contextlib.suppress(OSError, struct.error):
                _answer(responder, arrivals)


def _answer(responder: socket.socket, arrivals: OrderedDict[bytes, int]) -> None:
    data, sender = responder.recvfrom(2 * MOST_BYTES)
    arrived_ns = perf_counter_ns()
    token, sequence, sent_ns, _, _, _ = _PROBE.unpack_from(data)
    arrivals[token] = arrivals.get(token, 0) + 1
    if len(arrivals) > _SERIES:
        arrivals.popitem(last=False)
    reply = _PROBE.pack(token, sequence, sent_ns, arrivals[token], arrived_ns, perf_counter_ns())
    responder.sendto(reply + data[_PROBE.size :], sender)


def parse_probe(document: object) -> dict[str, Any]:
    """Return the arguments of POST /probe; raises LabError (exit code 2)."""
    if not isinstance(document, dict) or not isinstance(document.get("peer"), str):
        raise UsageError("A probe needs a peer.", 'Send {"peer": "broker", "count": 200, "interval_ms": 5}.')
    bounds = {
        "count": (200, 1, MOST_PROBES),
        "interval_ms": (5, LEAST_INTERVAL_MS, MOST_INTERVAL_MS),
        "size_bytes": (64, _PROBE.size, MOST_BYTES),
    }
    values: dict[str, Any] = {"peer": document["peer"]}
    for name, (default, least, most) in bounds.items():
        value = document.get(name, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
            raise UsageError(f"{name}={value!r}: expected {least} to {most}.", f"Correct `{name}`.")
        values[name] = value if name == "interval_ms" else int(value)
    return values


def probe(
    address: str, count: int, interval_ms: float, size_bytes: int = 64, *, wait_s: float = WAIT_S, port: int = ECHO_PORT
) -> dict[str, Any]:
    """Send `count` probes of `size_bytes` (UDP payload) on an open-loop schedule; return Series.as_json.

    Listens `wait_s` beyond the last one. Raises LabError (exit code 3) if none comes back.
    """
    series = Series(count)
    padding = bytes(size_bytes - _PROBE.size)

    def record(data: bytes, now_ns: int) -> bool:
        series.take(data, now_ns)
        return False

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ours:
        ours.connect((address, port))
        start_ns = perf_counter_ns()
        for sequence in range(count):
            receive(ours, start_ns + int(sequence * interval_ms * 1e6), record)
            try:
                ours.send(_PROBE.pack(series.token, sequence, perf_counter_ns(), 0, 0, 0) + padding)
            except OSError:
                series.unsent += 1
        if not series.complete:
            receive(ours, perf_counter_ns() + int(wait_s * 1e9), series.take)
        # A copy of the last one may still come.
        receive(ours, perf_counter_ns() + _LAST_COPY_NS, record)
    result = series.as_json()
    if not result["rtt_ms"]["n"]:
        raise MachineError(
            f"None of {count} probes to {address} came back.",
            f"The peer's sidecar must run `python3 -m looplab.link --echo` (UDP {port}).",
        )
    return result


def receive(ours: socket.socket, until_ns: int, take: Callable[[bytes, int], bool]) -> None:
    """Hand each datagram and when it came to `take`, until `until_ns` (monotonic) or until `take` returns True."""
    while (left_ns := until_ns - perf_counter_ns()) > 0:
        if select.select([ours], [], [], left_ns / 1e9)[0]:
            # A refused port makes recv fail: the responder may not be up yet, and losses are counted.
            with contextlib.suppress(OSError):
                if take(ours.recv(2 * MOST_BYTES), perf_counter_ns()):
                    return
