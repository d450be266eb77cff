"""What a link must do, checked by ICMP echoes, which the peer's kernel answers: run beside the emulator.

Standard library and looplab.link only, so that the same file runs in a container, in a virtual machine and under
pytest: `python3 link_checks.py <peer> [--probes N]` prints a JSON line for each check. Only one direction has a link at
a time, so that the round trip shows what it does.

Bounds: a mean may be off by 2 % or 0.7 ms, a standard deviation by 5 % or, with few probes, by 4 of its own standard
errors (a Pareto's is 4 % of 1600 probes), a loss rate by 4 standard deviations of the binomial distribution. By chance
alone one of them fails in fewer than 1 of 10 000 runs. Other programs' work disturbs timing, too: a check is
repeated, and must hold once of four times. How late this machine wakes a mere sleeper is measured beside each probe
and allowed for, because a packet waits for two such wake-ups: the prober's and the emulator's.
"""

import argparse
import contextlib
import json
import math
import socket
import statistics
import struct
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from itertools import accumulate
from time import perf_counter_ns
from typing import Any

from looplab.errors import LabError
from looplab.link import client
from looplab.link.distributions import delays_ns, theory
from looplab.link.ping import receive
from looplab.link.settings import DISTRIBUTIONS, LinkSettings

MEAN_SHARE, MEAN_MS, SD_SHARE = 0.02, 0.7, 0.05
# A machine's own noise where the link has no jitter.
SD_FLOOR_MS = 0.5
STANDARD_ERRORS = 4.0
WAKE_UPS = 2
# Sleeps for 1 ms until its standard input ends, then prints by how many ms it woke too late, and the mean and SD that
# packets have which come at any time and wait for the end of such a pause.
SLEEPER = """
import select, sys, time
late, start = [], time.perf_counter()
while True:
    before = time.perf_counter()
    if select.select([sys.stdin], [], [], 0.001)[0]:
        break
    late.append(time.perf_counter() - before - 0.001)
waited = [sum(one**power for one in late) / power / (time.perf_counter() - start) for power in (2, 3)]
print(1000 * sum(late) / max(1, len(late)), 1000 * waited[0], 1000 * waited[1] ** 0.5)
"""

WAIT_NS = 2_000_000_000
# Type (8 asks), code, checksum and identifier (the kernel's work), sequence; then when it left (ns).
ECHO = struct.Struct("!BBHHHQ")

Check = Callable[[str, int], list[str]]


def probe(peer: str, count: int) -> dict[str, Any]:
    """Send `count` echoes, 1 ms apart whatever comes back; return the figures. Raises LabError if none comes back."""
    back: list[tuple[int, int]] = []

    def take(data: bytes, now_ns: int) -> bool:
        *_, sequence, sent_ns = ECHO.unpack_from(data)
        back.append((sequence, now_ns - sent_ns))
        return len(back) == count

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP) as ours:
        ours.connect((peer, 0))
        # Until the first one has left a queue, the kernel takes each for a new connection, and drops all but one.
        ours.send(ECHO.pack(8, 0, 0, 0, count, perf_counter_ns()) + bytes(40))
        receive(ours, perf_counter_ns() + WAIT_NS, lambda *_answer: True)
        start_ns = perf_counter_ns()
        for sequence in range(count):
            receive(ours, start_ns + sequence * 1_000_000, take)
            with contextlib.suppress(OSError):
                ours.send(ECHO.pack(8, 0, 0, 0, sequence, perf_counter_ns()) + bytes(40))
        if len(back) < count:
            receive(ours, perf_counter_ns() + WAIT_NS, take)
    if len(back) < 2:
        raise LabError(f"{len(back)} of {count} probes to {peer} came back.", "Is it there?")
    numbers, delays_ms = [number for number, _ in back], [delay_ns / 1e6 for _, delay_ns in back]
    return {
        "n": len(back),
        "mean": statistics.fmean(delays_ms),
        "sd": statistics.stdev(delays_ms),
        "p50": statistics.median(delays_ms),
        "lost": count - len(back),
        "out_of_order": sum(number < most for number, most in zip(numbers[1:], accumulate(numbers, max), strict=False)),
    }


def measured(link: LinkSettings, count: int) -> dict[str, Any]:
    """Apply and probe; the state of the link is added as "link", what a sleeper finds as "late_ms"."""
    client.apply([link])
    with subprocess.Popen([sys.executable, "-c", SLEEPER], stdin=-1, stdout=-1, text=True) as sleeper:
        result = probe(link.peer, count)
        late_ms = [float(word) for word in sleeper.communicate()[0].split()]
    return {**result, "link": client.state()["links"][0], "late_ms": late_ms}


def timing_faults(link: LinkSettings, found: dict[str, Any]) -> list[str]:
    """What of mean and standard deviation is out of bounds, where packets may be late by what sleepers are."""
    mean, sd = theory(link)
    late_ms, pause_ms, pause_sd_ms = (WAKE_UPS * one for one in found["late_ms"])
    sd_ms = max(SD_SHARE * sd, STANDARD_ERRORS * sd_error(link, found["n"]), 0.0 if sd else SD_FLOOR_MS)
    faults = []
    if abs(found["mean"] - mean) > max(MEAN_SHARE * mean, MEAN_MS) + late_ms + pause_ms:
        faults.append(f"mean {found['mean']:.3f} ms, wanted {mean:.3f}")
    if not sd - sd_ms - late_ms <= found["sd"] <= math.hypot(sd, pause_sd_ms) + sd_ms + late_ms:
        faults.append(f"SD {found['sd']:.3f} ms, wanted {sd:.3f}")
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


def delays(direction: str, settings: dict[str, Any], peer: str, count: int) -> list[str]:
    """1000 packets a second: timing as wanted, none lost."""
    found = measured(link := LinkSettings(peer, direction, **settings), count)
    faults = [*timing_faults(link, found), *([f"lost {found['lost']}"] if found["lost"] else [])]
    return [*faults, *(["lost by a full queue"] if found["link"]["overflowed"] else [])]


def loss(peer: str, count: int) -> list[str]:
    faults = []
    for direction, percent in (("egress", 10.0), ("ingress", 2.0)):
        found = measured(LinkSettings(peer, direction, delay_ms=5.0, loss_percent=percent), count)
        faults += rate_fault(f"{direction} loss", found["lost"], count, percent)
    return faults


def order(peer: str, count: int) -> list[str]:
    kept = measured(LinkSettings(peer, "egress", **NORMAL, reorder=False), count)["out_of_order"]
    faults = [f"order not kept: {kept} overtaken"] if kept else []
    free = measured(LinkSettings(peer, "ingress", **NORMAL), count)["out_of_order"]
    # One in three overtakes the one before it by this jitter; far fewer would mean that order is always kept.
    return faults if free >= 0.3 * count else [*faults, f"only {free} of {count} overtook though reordering is on"]


def restored(peer: str, count: int) -> list[str]:
    client.apply([])
    p50 = probe(peer, count // 5)["p50"]
    return [] if p50 < 1.0 else [f"round trip {p50} ms without a link"]


UNIFORM, NORMAL, PARETO, PARETONORMAL = (
    {"delay_ms": 20.0, "jitter_ms": 5.0, "distribution": name} for name in DISTRIBUTIONS[1:]
)
CHECKS: dict[str, Check] = {
    "constant": partial(delays, "egress", {"delay_ms": 20.0}),
    "uniform": partial(delays, "ingress", UNIFORM),
    "normal": partial(delays, "egress", NORMAL),
    "pareto": partial(delays, "ingress", PARETO),
    "paretonormal": partial(delays, "egress", PARETONORMAL),
    "wide normal": partial(delays, "ingress", {**NORMAL, "delay_ms": 50.0, "jitter_ms": 10.0}),
    "loss": loss, "order": order, "restored": restored,
}  # fmt: skip


def run(name: str, peer: str, count: int) -> dict[str, Any]:
    """One check with its attempts: {"check", "good", "attempts": [[faults], ...]}."""
    attempts: list[list[str]] = []
    for _ in range(4):
        try:
            attempts.append(CHECKS[name](peer, count))
        except LabError as error:
            attempts.append([str(error)])
        if not attempts[-1]:
            break
    return {"check": name, "good": not attempts[-1], "attempts": attempts}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("peer")
    parser.add_argument("--probes", type=int, default=2500)
    parser.add_argument("--only", action="append", choices=list(CHECKS))
    options = parser.parse_args()
    for name in options.only or CHECKS:
        print(json.dumps(run(name, options.peer, options.probes)), flush=True)


if __name__ == "__main__":
    main()
