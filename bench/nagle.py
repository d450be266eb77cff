"""Model Nagle's algorithm over a link: events of broker and bridge, to choose the parameters of LINK=wifi.

    PYTHONPATH=src python3 bench/nagle.py --delay 4.2 --jitter 0.25 --distribution normal

Requests come each interval, and each is answered at once. Both ends hold a small segment while one of theirs is
unacknowledged (RFC 896); acknowledgements ride on what is sent, or come after 40 ms. Prints O of each interval with
Nagle and without, and in how many repetitions two messages once shared a segment, after which each answer waits for
the next request's acknowledgement (`locked`). A model only: `./lab run scenario0 --link wifi` measures the real parts.
"""

import argparse
import heapq
import random
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field

from looplab.link.distributions import sampler
from looplab.link.settings import DISTRIBUTIONS, LinkSettings

# The loop's own time on a quiet machine (O p50 of scenario 0 is 0.9 to 1.0 ms): controller to broker's socket,
# within the bridge, broker to controller.
TO_BROKER_MS, BRIDGE_MS, FROM_BROKER_MS = 0.3, 0.3, 0.35
DELAYED_ACK_MS = 40.0
INTERVALS_MS, MESSAGES = (100, 50, 20, 10), 100


@dataclass
class End:
    """One end of the connection; counts are of messages, of which each fills a segment."""

    delay_ms: Callable[[], float]
    waiting: list[int] = field(default_factory=list)
    sent: int = 0
    confirmed: int = 0
    received: int = 0
    told: int = 0
    last_arrival_ms: float = 0.0
    shared: bool = False


class SentRepetition:
    """Simulate MESSAGES requests, one each interval."""

    def __init__(self, there: Callable[[], float], back: Callable[[], float], interval_ms: float, nagle: bool) -> None:
        self.broker, self.bridge = End(there), End(back)
        self.latencies_ms: list[float] = []
        self._nagle = nagle
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._interval_ms = interval_ms
        self._serial = 0
        for k in range(MESSAGES):
            self._at(k * interval_ms + TO_BROKER_MS, lambda now, k=k: self._write(self.broker, k, now))
        while self._events:
            now, _, event = heapq.heappop(self._events)
            event(now)

    @property
    def locked(self) -> bool:
        return self.broker.shared or self.bridge.shared

    def _at(self, when_ms: float, event: Callable[[float], None]) -> None:
        self._serial += 1
        heapq.heappush(self._events, (when_ms, self._serial, event))

    def _write(self, end: End, message: int, now: float) -> None:
        end.waiting.append(message)
        self._push(end, now)

    def _push(self, end: End, now: float) -> None:
        if end.waiting and not (self._nagle and end.confirmed < end.sent):
            end.shared |= len(end.waiting) > 1
            self._transmit(end, end.waiting, now)
            end.waiting = []

    def _transmit(self, end: End, messages: list[int], now: float) -> None:
        other = self.bridge if end is self.broker else self.broker
        # In order: a packet does not pass the one before it.
        end.last_arrival_ms = max(end.last_arrival_ms, now + end.delay_ms())
        end.sent += len(messages)
        end.told = confirms = end.received
        self._at(end.last_arrival_ms, lambda then: self._arrive(other, messages, confirms, then))

    def _arrive(self, end: End, messages: list[int], confirms: int, now: float) -> None:
        end.confirmed = max(end.confirmed, confirms)
        end.received += len(messages)
        self._push(end, now)
        for message in messages:
            if end is self.bridge:
                self._at(now + BRIDGE_MS, lambda then, k=message: self._write(self.bridge, k, then))
            else:
                self.latencies_ms.append(now + FROM_BROKER_MS - message * self._interval_ms)
        if messages:
            self._at(now + DELAYED_ACK_MS, lambda then: self._confirm(end, then))

    def _confirm(self, end: End, now: float) -> None:
        if end.told < end.received:
            self._transmit(end, [], now)


def run(link: LinkSettings, interval_ms: float, nagle: bool, repetitions: int) -> tuple[list[float], int]:
    """Return (O of every message in ms, repetitions that locked)."""
    rng = random.Random(1)
    there, back = sampler(link, rng), sampler(link, rng)
    done = [SentRepetition(lambda: there() / 1e6, lambda: back() / 1e6, interval_ms, nagle) for _ in range(repetitions)]
    return [ms for one in done for ms in one.latencies_ms], sum(one.locked for one in done)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--delay", type=float, default=4.2, help="ms of each way")
    parser.add_argument("--jitter", type=float, default=0.25, help="ms, as LINK_JITTER_MS")
    parser.add_argument("--distribution", choices=DISTRIBUTIONS, default="normal")
    parser.add_argument("--repetitions", type=int, default=200)
    options = parser.parse_args()
    link = LinkSettings("broker", "egress", options.delay, options.jitter, options.distribution, reorder=False)
    for interval_ms in INTERVALS_MS:
        for nagle in (False, True):
            found, locked = run(link, interval_ms, nagle, options.repetitions)
            fifth = statistics.quantiles(found, n=5)[0]
            print(
                f"{interval_ms:4} ms, Nagle {'on ' if nagle else 'off'}: mean {statistics.fmean(found):5.2f}, "
                f"least {min(found):5.2f}, a fifth below {fifth:5.2f}, most {max(found):5.2f}; "
                f"locked {locked} of {options.repetitions}"
            )


if __name__ == "__main__":
    main()
