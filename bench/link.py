"""Measure the link emulator for minutes: 1000 packets a second each way, drops, accuracy, CPU time.

Run as root with the lab's images: PYTHONPATH=src:tests .venv/bin/python bench/link.py
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from support.containers import own_image
from support.link_checks import MEAN_MS, MEAN_SHARE, SD_SHARE
from support.link_pair import PEER, Pair, in_container, pids, prioritise

from looplab.link.distributions import theory
from looplab.link.settings import DISTRIBUTIONS, LinkSettings

DELAY_MS, JITTER_MS = 20.0, 5.0
PROBE = """
import json, sys
from looplab.link import client
from looplab.link.settings import both_ways
shape, count = json.loads(sys.argv[1]), int(sys.argv[2])
client.apply(both_ways("peer", **shape))
found = client.probe("peer", count, 1)
print(json.dumps({**found, "links": client.state()["links"]}))
"""


def cpu_s(pid: int) -> float:
    """Return the CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def within(link: LinkSettings, way: dict[str, Any]) -> bool:
    """Return whether mean and standard deviation are within the limits, with no allowance for chance."""
    mean, sd = theory(link)
    return abs(way["mean"] - mean) <= max(MEAN_SHARE * mean, MEAN_MS) and abs(way["sd"] - sd) <= max(SD_SHARE * sd, 0.5)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=30, help="for each distribution")
    parser.add_argument("--plain", action="store_true", help="no real-time priority")
    options = parser.parse_args()
    pair, good = Pair(own_image("link")), True
    try:
        pair.open()
        responder, emulator = pair.responder(), pair.ready_emulator(real_time=not options.plain)
        if not options.plain:
            prioritise(responder)
        worker = pids(emulator)["lab-link"]
        print("distribution   wanted mean/SD    there mean/SD     back mean/SD     lost full  CPU  within")
        for distribution in DISTRIBUTIONS:
            shape = {"delay_ms": DELAY_MS, "distribution": distribution}
            shape |= {} if distribution == "constant" else {"jitter_ms": JITTER_MS}
            before_s, begun_s = cpu_s(worker), time.monotonic()
            said = in_container(emulator, PROBE, json.dumps(shape), str(options.seconds * 1000))
            share = (cpu_s(worker) - before_s) / (time.monotonic() - begun_s)
            found = json.loads(said)
            link = LinkSettings(PEER, "egress", **shape)
            there, back = found["there_ms"], found["back_ms"]
            full = sum(entry["overflowed"] for entry in found["links"])
            accurate = within(link, there) and within(link, back)
            good &= accurate and not found["rtt_ms"]["lost"] and not full
            mean, sd = theory(link)
            print(
                f"{distribution:14} {mean:8.3f} {sd:6.3f}   {there['mean']:8.3f} {there['sd']:6.3f} "
                f"  {back['mean']:8.3f} {back['sd']:6.3f} {found['rtt_ms']['lost']:6} {full:4} {share:5.0%}  "
                f"{'yes' if accurate else 'NO'}",
                flush=True,
            )
    finally:
        pair.close()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
