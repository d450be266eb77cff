#!/usr/bin/env python3
"""Measure what each part of the lab does to a bystander under load: a container that wakes every 20 ms and notes how
late it was, as the controller would be.

The lab's own containers, each paused and resumed by turns in one run; the load goes on. An arm adds one part, the last
arms have them all; `--ends`: only the load alone and all parts. Bridge and robot first get their priority of a run.
Prints p95 of the lateness (250 wake-ups a sample) over the load alone, and how many samples had a stall above 25 ms.
Needs root and an idle machine after ./lab setup.

    python3 bench/bystander.py [--load stress|flood|none] [--samples 12] [--seconds 5] [--processors 1] [--ends]
"""

import argparse
import json
import os
import random
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

from kept import keeping, options, write_rows

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from looplab.experiments.loop import BRIDGE, ROBOT  # noqa: E402
from looplab.lab.checkout import Lab  # noqa: E402
from looplab.run import quiet  # noqa: E402
from looplab.system.json_client import TOKENS  # noqa: E402
from looplab.treatments.scans import Scan, TreatmentsClient, policies, running  # noqa: E402

SCENARIOS = {"none": "scenario1", "stress": "scenario2", "flood": "scenario7"}
WATCHERS = ("exporter", "prometheus", "grafana")
FAR = ("treatments", "robot", "bridge")
SETTLE_S = 0.7
START_S = 30
LONG_MS = 25
# A bystander that does not wake for so long has no sample.
STUCK_S = 10
# A wake-up after a stall is one, those missed meanwhile are not.
BYSTANDER = """
import time
period, due = 20_000_000, time.monotonic_ns()
while True:
    due += period
    time.sleep(max(0, due - time.monotonic_ns()) / 1e9)
    late = time.monotonic_ns() - due
    print(due, late, flush=True)
    due += late // period * period
"""


class Bystander:
    """A container of `image` (with Python) that wakes every 20 ms; `more` are options of `docker run`."""

    def __init__(self, image: str, *more: str) -> None:
        self._name = f"looplab-bystander-{os.getpid()}"
        words = ["docker", "run", "--rm", "--network=none", "--entrypoint=python3", f"--name={self._name}", *more]
        self._process = subprocess.Popen([*words, image, "-uc", BYSTANDER], stdout=subprocess.PIPE, text=True)
        self._seen: list[tuple[int, int]] = []
        threading.Thread(target=self._read, daemon=True).start()

    def sample(self, seconds: float) -> list[int]:
        """Return the lateness in ns of all wake-ups that fall due in the next `seconds`; none if it did not wake."""
        start = time.monotonic_ns()
        time.sleep(seconds)
        end = time.monotonic_ns()
        # What is late is printed late: before a wake-up that fell due after `end`, the longest stall may be missing.
        while not (self._seen and self._seen[-1][0] >= end):
            if self._process.poll() is not None or time.monotonic_ns() > end + STUCK_S * 10**9:
                return []
            time.sleep(0.02)
        return [late for due, late in list(self._seen) if start <= due < end]

    def stop(self) -> None:
        """Kill it: as process 1 it ignores SIGTERM."""
        subprocess.run(["docker", "kill", self._name], capture_output=True, check=False)
        self._process.wait()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            due, late = line.split()
            self._seen.append((int(due), int(late)))


def docker(*words: str) -> str:
    done = subprocess.run(["docker", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"docker {words[0]}: {done.stderr.strip()}")
    return done.stdout.strip()


def arms(there: list[str], ends: bool) -> dict[str, list[str]]:
    """Return which parts run in each arm; the broker is measured, so it runs in all. `ends`: the first and the last."""
    found: dict[str, list[str]] = {"load alone": []}
    if not ends:
        found |= {f"+ {part}": [part] for part in there}
        found["+ all that look on"] = [part for part in there if part in WATCHERS]
    found["+ all"] = list(there)
    return found


def start(scenario: str, processors: int) -> dict[str, str]:
    """Start the scenario's parts, and end its controller; return the containers by service.

    0 `processors` are all of the machine's, else the parts get the first ones.
    """
    compose = Lab(ROOT).compose()
    compose.up(scenario, replace=True)
    compose.stop(scenario)
    containers = compose.listed()
    if processors:
        docker("update", f"--cpuset-cpus=0-{processors - 1}", *containers.values())
    return containers


def prioritise(treatments: str) -> TreatmentsClient:
    """Give bridge and robot the priority of a run, as the controller's first scan does; print both, return the client.

    Under stress it takes them seconds to start.
    """
    [facts] = json.loads(docker("inspect", treatments))
    os.environ["TOKENS"] = next(one["Source"] for one in facts["Mounts"] if one["Destination"] == TOKENS)
    networks = facts["NetworkSettings"]["Networks"]
    address = next(one["IPAddress"] for name, one in networks.items() if name.endswith("_control"))
    url, roles = f"http://{address}:9100/facts", (BRIDGE, ROBOT)
    observer, end = TreatmentsClient([replace(role, fifo=0) for role in roles], url), time.monotonic() + START_S
    while not all(running(scan := observer.scan({}), role.name) for role in roles):
        if time.monotonic() > end:
            sys.exit(f"bridge or robot did not start within {START_S} s")
        time.sleep(0.5)
    client = TreatmentsClient(roles, url)
    for scans in (scan, client.scan({})):
        print({role.name: policies([scans], role.name) for role in roles} if scans else "no answer", file=sys.stderr)
    return client


def measure(given: argparse.Namespace) -> list[dict[str, object]]:
    """Return the samples with their arms, whose order is drawn again in each round."""
    containers = start(SCENARIOS[given.load], given.processors)
    client = prioritise(containers["treatments"])
    parts = [name for name in (*WATCHERS, *FAR) if name in containers]
    parts_of = arms(parts, given.ends)
    found: list[dict[str, object]] = []
    bound = [f"--cpuset-cpus=0-{given.processors - 1}"] if given.processors else []
    bystander = Bystander(Lab(ROOT).own_image("controller"), *bound)
    draw, began = random.Random(given.seed), time.monotonic()
    paused: set[str] = set()
    try:
        time.sleep(5)
        for number in range(given.samples):
            for name, present in draw.sample(list(parts_of.items()), len(parts_of)):
                idle = set(parts) - set(present)
                for verb, which in (("pause", idle - paused), ("unpause", paused - idle)):
                    if which:
                        docker(verb, *(containers[part] for part in which))
                paused = idle
                before = client.scan({}) if "treatments" in present else None
                time.sleep(SETTLE_S)
                late_ns = bystander.sample(given.seconds)
                if not late_ns:
                    sys.exit(f"{name}: the bystander did not wake within {STUCK_S} s")
                found.append({"arm": name, "late_us": [round(late / 1000) for late in late_ns]})
                if max(late_ns) > LONG_MS * 1e6:
                    print(f"{name}: {max(late_ns) / 1e6:.0f} ms, {machine(before, client)}", file=sys.stderr)
            left_s = (time.monotonic() - began) / (number + 1) * (given.samples - number - 1)
            print(f"round {number + 1} of {given.samples}, about {left_s / 60:.0f} min left", file=sys.stderr)
    finally:
        if paused:
            docker("unpause", *(containers[part] for part in paused))
        bystander.stop()
        subprocess.run([ROOT / "lab", "down"], capture_output=True, check=False)
    return found


def machine(before: Scan | None, client: TreatmentsClient) -> str:
    """Return how long the machine itself stalled since a scan, by the probes of the treatments service."""
    if before is None:
        return "the machine's own part is unknown: its probes are paused"
    worst = quiet.worst(quiet.noise_of_run([before, client.scan({})]))
    return f"the machine itself {worst.get('max_us', 0) / 1000:.1f} ms on processor {worst.get('processor', '?')}"


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("--load", choices=SCENARIOS, default="stress")
    parser.add_argument("--samples", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--processors", type=int, default=0, help="how many the parts get (default: all)")
    parser.add_argument("--ends", action="store_true", help="only the load alone and all parts")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with keeping("bystander", given.keep) as folder:
        write_rows(folder / f"{given.load}-{given.processors or 'all'}.jsonl", measure(given))
    return 0


if __name__ == "__main__":
    sys.exit(main())
