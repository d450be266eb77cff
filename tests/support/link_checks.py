"""What a link must do, checked by real UDP probes: run beside the emulator, in its network namespace.

Standard library and looplab.link only, so that the same file runs in a container, in a virtual machine and under
pytest: `python3 link_checks.py <peer> [--probes N]` prints a JSON line for each check. `--echo` answers probes beside
the peer. Both ends are on one machine and stamp with one CLOCK_MONOTONIC, so each way is measured by itself.

Bounds: a mean may be off by 2 % or 0.7 ms, a standard deviation by 5 % or, with few probes, by 4 of its own standard
errors (a Pareto's is 4 % of 1600 probes), a loss rate by 4 standard deviations of the binomial distribution. By chance
alone one of them fails in fewer than 1 of 10 000 runs. Other programs' work disturbs timing, too: a check is
repeated, and must hold once of three times. How late this machine wakes a mere sleeper is measured beside each probe
and allowed for, because a packet waits for two such wake-ups: the prober's and the emulator's.
"""

import argparse
import contextlib
import json
import secrets
import socket
import statistics
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from time import perf_counter_ns
from typing import Any

from looplab.errors import LabError
from looplab.link import client
from looplab.link.distributions import delays_ns, theory
from looplab.link.ping import receive
from looplab.link.settings import DISTRIBUTIONS, LinkSettings

ATTEMPTS = 3
MEAN_SHARE, MEAN_MS, SD_SHARE = 0.02, 0.7, 0.05
# A machine's own noise where the link has no jitter.
SD_FLOOR_MS = 0.5
STANDARD_ERRORS = 4.0
WAKE_UPS = 2
# Sleeps for 1 ms until its standard input ends, then prints by how many ms it woke too late, on average.
SLEEPER = """
import select, sys, time
late = []
while True:
    before = time.perf_counter()
    if select.select([sys.stdin], [], [], 0.001)[0]:
        break
    late.append(time.perf_counter() - before - 0.001)
print(1000 * sum(late) / max(1, len(late)))
"""

ECHO_PORT, WAIT_NS = 9108, 2_000_000_000
# Token of the series, sequence, when it left; then from there: number of its arrival, when it came, when it left (ns).
PROBE = struct.Struct("!8sIQIQQ")

Check = Callable[[str, int], list[str]]


def echo() -> None:
    """Answer probes for good."""
    arrivals: Counter[bytes] = Counter()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as responder:
        responder.bind(("", ECHO_PORT))
        while True:
            data, sender = responder.recvfrom(2048)
            arrived_ns = perf_counter_ns()
            token, sequence, sent_ns, *_ = PROBE.unpack_from(data)
            arrivals[token] += 1
            reply = PROBE.pack(token, sequence, sent_ns, arrivals[token], arrived_ns, perf_counter_ns())
            responder.sendto(reply + data[PROBE.size :], sender)


def probe(peer: str, count: int, interval_ms: float) -> dict[str, Any]:
    """Send `count` probes on an open-loop schedule; return the figures of each way.

    Last answers lost on the way back count as lost on the way there. Raises LabError if none comes back.
    """
    token, padding = secrets.token_bytes(8), bytes(64 - PROBE.size)
    # By the number of its arrival there.
    there: dict[int, tuple[int, int]] = {}
    back: list[tuple[int, int]] = []

    def take(data: bytes, now_ns: int) -> bool:
        own, sequence, sent_ns, arrival, arrived_ns, left_ns = PROBE.unpack_from(data)
        if own == token:
            there[arrival] = (sequence, arrived_ns - sent_ns)
            back.append((arrival, now_ns - left_ns))
        return len(back) == count

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ours:
        ours.connect((peer, ECHO_PORT))
        start_ns = perf_counter_ns()
        for sequence in range(count):
            receive(ours, start_ns + int(sequence * interval_ms * 1e6), take)
            with contextlib.suppress(OSError):
                ours.send(PROBE.pack(token, sequence, perf_counter_ns(), 0, 0, 0) + padding)
        if len(back) < count:
            receive(ours, perf_counter_ns() + WAIT_NS, take)
    if len(back) < 2:
        raise LabError(f"{len(back)} of {count} probes to {peer} came back.", "Does `--echo` run there?")
    arrived, arrivals = [there[at] for at in sorted(there)], max(there)
    return {"there_ms": way(arrived, count - (arrivals - len(there))), "back_ms": way(back, arrivals)}


def way(arrived: Sequence[tuple[int, int]], sent: int) -> dict[str, Any]:
    """Return the figures of one way: (number it was sent with, delay in ns) of each packet in the order of arrival."""
    numbers, delays_ms = [number for number, _ in arrived], [delay_ns / 1e6 for _, delay_ns in arrived]
    return {
        "n": len(arrived),
        "mean": statistics.fmean(delays_ms),
        "sd": statistics.stdev(delays_ms),
        "p50": statistics.median(delays_ms),
        "max": max(delays_ms),
        "lost": max(0, sent - len(arrived)),
        "out_of_order": sum(number < most for number, most in zip(numbers[1:], accumulate(numbers, max), strict=False)),
    }


def both(peer: str, there: dict[str, Any], back: dict[str, Any]) -> list[LinkSettings]:
    """A link to `peer` whose two directions differ."""
    return [LinkSettings(peer, "egress", **there), LinkSettings(peer, "ingress", **back)]


def measured(links: list[LinkSettings], count: int) -> dict[str, Any]:
    """Apply and probe; the state of the links is added as "links", a sleeper's mean lateness as "late_ms"."""
    client.apply(links)
    with subprocess.Popen([sys.executable, "-c", SLEEPER], stdin=-1, stdout=-1, text=True) as sleeper:
        result = probe(links[0].peer, count, 1)
        late_ms = float(sleeper.communicate()[0])
    return {**result, "links": client.state()["links"], "late_ms": late_ms}


def timing_faults(link: LinkSettings, way: dict[str, Any], late_ms: float) -> list[str]:
    """What of mean and standard deviation is out of bounds, where packets may be late by `late_ms`."""
    mean, sd = theory(link)
    sd_ms = max(SD_SHARE * sd, STANDARD_ERRORS * sd_error(link, way["n"]), 0.0 if sd else SD_FLOOR_MS)
    faults = []
    if abs(way["mean"] - mean) > max(MEAN_SHARE * mean, MEAN_MS) + late_ms:
        faults.append(f"mean {way['mean']:.3f} ms, wanted {mean:.3f}")
    if abs(way["sd"] - sd) > sd_ms + late_ms:
        faults.append(f"SD {way['sd']:.3f} ms, wanted {sd:.3f}")
    return [f"{link.direction} {link.distribution}: {fault}" for fault in faults]


def sd_error(link: LinkSettings, n: int) -> float:
    """Standard error in ms of the standard deviation of `n` delays; long tails make it large."""
    mean, sd = theory(link)
    if not sd:
        return 0.0
    drawn = delays_ns(link)
    kurtosis = sum((delay / 1e6 - mean) ** 4 for delay in drawn) / len(drawn) / sd**4
    return float(sd * ((kurtosis - 1) / (4 * n)) ** 0.5)


def rate_fault(what: str, happened: int, of: int, percent: float) -> list[str]:
    """Whether a count lies within its binomial interval."""
    share = percent / 100
    allowed = STANDARD_ERRORS * (of * share * (1 - share)) ** 0.5
    return [] if abs(happened - of * share) <= allowed else [f"{what}: {happened} of {of}, wanted {percent:g} %"]


def delays(ways: tuple[dict[str, Any], dict[str, Any]], peer: str, count: int) -> list[str]:
    """1000 packets a second each way: timing as wanted, none lost."""
    found = measured(links := both(peer, *ways), count)
    late_ms = WAKE_UPS * found["late_ms"]
    faults = timing_faults(links[0], found["there_ms"], late_ms) + timing_faults(links[1], found["back_ms"], late_ms)
    faults += [f"{name} lost {found[name]['lost']}" for name in ("there_ms", "back_ms") if found[name]["lost"]]
    return faults + [f"{link['overflowed']} lost by a full queue" for link in found["links"] if link["overflowed"]]


def loss(peer: str, count: int) -> list[str]:
    found = measured(both(peer, {"delay_ms": 5.0, "loss_percent": 10.0}, {"delay_ms": 5.0, "loss_percent": 2.0}), count)
    arrived = count - found["there_ms"]["lost"]
    return rate_fault("egress loss", count - arrived, count, 10) + rate_fault(
        "ingress loss", found["back_ms"]["lost"], arrived, 2
    )


def order(peer: str, count: int) -> list[str]:
    found = measured(both(peer, {**NORMAL, "reorder": False}, NORMAL), count)
    faults = [f"order not kept: {n} overtaken" for n in (found["there_ms"]["out_of_order"],) if n]
    # One in three overtakes the one before it by this jitter; far fewer would mean that order is always kept.
    if found["back_ms"]["out_of_order"] < 0.3 * count:
        faults.append(f"only {found['back_ms']['out_of_order']} of {count} overtook though reordering is on")
    return faults


def restored(peer: str, count: int) -> list[str]:
    client.apply([])
    found = probe(peer, count // 5, 1)
    p50 = found["there_ms"]["p50"] + found["back_ms"]["p50"]
    return [] if p50 < 1.0 else [f"round trip {p50} ms without a link"]


UNIFORM, NORMAL, PARETO, PARETONORMAL = (
    {"delay_ms": 20.0, "jitter_ms": 5.0, "distribution": name} for name in DISTRIBUTIONS[1:]
)
CHECKS: dict[str, Check] = {
    "constant and uniform": partial(delays, ({"delay_ms": 20.0}, UNIFORM)),
    "normal and pareto": partial(delays, (NORMAL, PARETO)),
    "paretonormal and wide normal": partial(delays, (PARETONORMAL, {**NORMAL, "delay_ms": 50.0, "jitter_ms": 10.0})),
    "loss": loss, "order": order, "restored": restored,
}  # fmt: skip


def run(name: str, peer: str, count: int) -> dict[str, Any]:
    """One check with its attempts: {"check", "good", "attempts": [[faults], ...]}."""
    attempts: list[list[str]] = []
    for _ in range(ATTEMPTS):
        try:
            attempts.append(CHECKS[name](peer, count))
        except LabError as error:
            attempts.append([str(error)])
        if not attempts[-1]:
            break
    return {"check": name, "good": not attempts[-1], "attempts": attempts}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("peer", nargs="?", default="")
    parser.add_argument("--echo", action="store_true", help="answer probes")
    parser.add_argument("--probes", type=int, default=2500)
    parser.add_argument("--only", action="append", choices=list(CHECKS))
    options = parser.parse_args()
    if options.echo:
        echo()
    good = True
    for name in options.only or CHECKS:
        result = run(name, options.peer, options.probes)
        good &= result["good"]
        print(json.dumps(result), flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
