#!/usr/bin/env python3
"""Measure what each part of the lab does to a bystander under load: a container that wakes every 20 ms and notes how
late it was, as the controller would be.

The lab's own containers, each paused and resumed by turns in one run; the load goes on. An arm adds one part, the last
arms have them all; `--ends`: only the load alone and all parts. Bridge and robot first get their priority of a run.
Prints, for each arm, p95, p99 and maximum of lateness over its samples (250 wake-ups each), and how many samples had a
maximum above 25 ms; then the ratios to the load alone. `--group docker` puts every part back into the measured parts'
control group, to see what that does. Needs root and an idle machine after ./lab setup.

    python3 bench/bystander.py [--load stress|flood|none] [--samples 24] [--seconds 5] [--processors 1] [--ends]
"""

import argparse
import json
import os
import random
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from looplab.experiments.loop import BRIDGE, ROBOT  # noqa: E402
from looplab.lab.checkout import Lab  # noqa: E402
from looplab.lab.machine.limits import AMONG_THE_MEASURED  # noqa: E402
from looplab.run.accounting import quantile  # noqa: E402
from looplab.treatments import noise  # noqa: E402
from looplab.treatments.scans import Scan, TreatmentsClient, policies, running  # noqa: E402

SCENARIOS = {"none": "scenario1", "stress": "scenario2", "flood": "scenario7"}
WATCHERS = ("exporter", "prometheus", "grafana")
FAR = ("treatments", "robot", "bridge")
SETTLE_S = 0.7
START_S = 30
LONG_MS = 25
LIMIT = 1.2
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


@dataclass(frozen=True)
class Lateness:
    """Of a bystander's wake-ups, in ms."""

    p95_ms: float
    p99_ms: float
    max_ms: float


class Bystander:
    """A container of `image` (with Python) that wakes every 20 ms; `more` are options of `docker run`."""

    def __init__(self, image: str, *more: str) -> None:
        self._name = f"looplab-bystander-{os.getpid()}"
        words = ["docker", "run", "--rm", "--network=none", "--entrypoint=python3", f"--name={self._name}", *more]
        self._process = subprocess.Popen([*words, image, "-uc", BYSTANDER], stdout=subprocess.PIPE, text=True)
        self._seen: list[tuple[int, int]] = []
        threading.Thread(target=self._read, daemon=True).start()

    def sample(self, seconds: float) -> Lateness | None:
        """Return the lateness of all wake-ups that fall due in the next `seconds`; None if it stopped waking up."""
        start = time.monotonic_ns()
        time.sleep(seconds)
        end = time.monotonic_ns()
        # What is late is printed late: before a wake-up that fell due after `end`, the longest stall may be missing.
        while not (self._seen and self._seen[-1][0] >= end):
            if self._process.poll() is not None or time.monotonic_ns() > end + STUCK_S * 10**9:
                return None
            time.sleep(0.02)
        late = sorted(late for due, late in list(self._seen) if start <= due < end)
        return Lateness(*(quantile(late, share) / 1e6 for share in (0.95, 0.99, 1.0)))  # type: ignore[operator]

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
    return subprocess.run(["docker", *words], check=True, capture_output=True, text=True).stdout.strip()


def arms(there: list[str], ends: bool) -> dict[str, list[str]]:
    """Return which parts run in each arm; the broker is measured, so it runs in all. `ends`: the first and the last."""
    found: dict[str, list[str]] = {"load alone": []}
    if not ends:
        found |= {f"+ {part}": [part] for part in there}
        found["+ all that look on"] = [part for part in there if part in WATCHERS]
    found["+ all"] = list(there)
    return found


def start(scenario: str, group: str, processors: int) -> dict[str, str]:
    """Start the scenario's parts, and end its controller; return the containers by service.

    0 `processors` are all of the machine's, else the parts get the first ones.
    """
    compose = Lab(ROOT).compose({} if group == "own" else {**AMONG_THE_MEASURED, "LAB_FAR_GROUP": ""})
    compose.up(scenario)
    for service in compose.listed():
        if service.endswith("controller"):
            compose.stop(service)
    containers = compose.listed()
    if processors:
        docker("update", f"--cpuset-cpus=0-{processors - 1}", *containers.values())
    return containers


def prioritise(treatments: str) -> TreatmentsClient:
    """Give bridge and robot the priority of a run, as the controller's first scan does; print both, return the client.

    Under stress it takes them seconds to start.
    """
    address = docker("inspect", "--format", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", treatments)
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


def measure(options: argparse.Namespace) -> dict[str, list[Lateness]]:
    """Return the samples of each arm, their order drawn again in each round."""
    containers = start(SCENARIOS[options.load], options.group, options.processors)
    client = prioritise(containers["treatments"])
    parts = [name for name in (*WATCHERS, *FAR) if name in containers]
    parts_of = arms(parts, options.ends)
    found: dict[str, list[Lateness]] = {name: [] for name in parts_of}
    bound = [f"--cpuset-cpus=0-{options.processors - 1}"] if options.processors else []
    bystander = Bystander(Lab(ROOT).own_images()["controller"], *bound)
    draw, began = random.Random(options.seed), time.monotonic()
    paused: set[str] = set()
    try:
        time.sleep(5)
        for number in range(options.samples):
            for name, present in draw.sample(list(parts_of.items()), len(parts_of)):
                idle = set(parts) - set(present)
                for verb, which in (("pause", idle - paused), ("unpause", paused - idle)):
                    if which:
                        docker(verb, *(containers[part] for part in which))
                paused = idle
                before = client.scan({}) if "treatments" in present else None
                time.sleep(SETTLE_S)
                sample = bystander.sample(options.seconds)
                if sample is None:
                    sys.exit(f"{name}: the bystander did not wake within {STUCK_S} s")
                found[name].append(sample)
                if sample.max_ms > LONG_MS:
                    print(f"{name}: {sample.max_ms:.0f} ms, {machine(before, client)}", file=sys.stderr)
            left_s = (time.monotonic() - began) / (number + 1) * (options.samples - number - 1)
            print(f"round {number + 1} of {options.samples}, about {left_s / 60:.0f} min left", file=sys.stderr)
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
    worst = noise.worst(noise.over([before, client.scan({})]))
    return f"the machine itself {worst.get('max_us', 0) / 1000:.1f} ms on processor {worst.get('processor', '?')}"


def table(found: dict[str, list[Lateness]]) -> str:
    """Return one line an arm."""
    lines = [f"{'lateness in ms':<22} {'p95':>16} {'p99':>16} {'max':>18} {'> 25 ms':>8} {'p95 ratio':>9}"]
    alone = middle(found["load alone"])
    for name, samples in found.items():
        spans = []
        for values in zip(*(asdict(sample).values() for sample in samples), strict=True):
            ordered = sorted(values)
            spans.append(f"{quantile(ordered, 0.5):.2f} ({ordered[0]:.1f}-{ordered[-1]:.1f})")
        long = sum(sample.max_ms > LONG_MS for sample in samples)
        ratio = middle(samples) / alone
        lines.append(
            f"{name:<22} {spans[0]:>16} {spans[1]:>16} {spans[2]:>18} {long:>5}/{len(samples):<2} {ratio:>9.2f}"
        )
    return "\n".join(lines)


def middle(samples: list[Lateness]) -> float:
    """Return the median p95 of the samples."""
    return quantile(sorted(sample.p95_ms for sample in samples), 0.5)  # type: ignore[arg-type]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--load", choices=SCENARIOS, default="stress")
    parser.add_argument("--samples", type=int, default=24)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--group", choices=("own", "docker"), default="own")
    parser.add_argument("--processors", type=int, default=0, help="how many the parts get (default: all)")
    parser.add_argument("--ends", action="store_true", help="only the load alone and all parts")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = measure(options)
    if options.json:
        document: dict[str, Any] = {name: [asdict(sample) for sample in samples] for name, samples in found.items()}
        print(json.dumps(document))
    else:
        print(table(found))
    alone, everything = found["load alone"], found["+ all"]
    ratio = middle(everything) / middle(alone)
    long = [sum(sample.max_ms > LONG_MS for sample in samples) for samples in (everything, alone)]
    good = ratio <= LIMIT and long[0] <= long[1]
    print(
        f"all parts: p95 {ratio:.2f} x the load alone (at most {LIMIT}), {long[0]} samples above {LONG_MS} ms (at most "
        f"{long[1]}): {'ok' if good else 'MISSED'}",
        file=sys.stderr,
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
