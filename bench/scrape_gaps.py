"""Check that Prometheus scrapes each second while the stress uses every processor.

    python3 bench/scrape_gaps.py [SCENARIO] [--messages 1000] [--repetitions 3] [--shares 128] [--dashboard live-loop]

Runs a scenario (containers, ./lab run) at 20 ms and reads Prometheus's raw samples of that time afterwards: each scrape
must have succeeded within a second, none may be missing, and the number of messages sent must have grown with each.
--shares sets another weight of exporter and Prometheus than compose/observability.yaml (docker update after the start).
--alone models an idle machine on a busy one: they get, as a quota, what that weight leaves them of one processor beside
the stress. --dashboard asks every query of a dashboard at its own refresh, six at a time, as an open
dashboard does, and times the answers. Exit code 1 if there was a gap, or if a query failed.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from looplab.lab.checkout import Lab  # noqa: E402
from looplab.lab.settings import project_name  # noqa: E402

# A scrape is due each second; a missing one makes it two. Half a second is for the machine's lateness.
GAP_S = 1.5
SLOW_S = 1.0
# The default weight of a container, such as the stress.
OTHERS_SHARES = 1024
PERIOD_US = 100_000

# (Unix time in s, value), ascending.
Samples = list[tuple[float, float]]


def raw(expression: str, since: float, until: float) -> list[Samples]:
    """Return every stored sample of the matching series between two times."""
    query = f"{expression}[{max(1, round(until - since))}s]"
    port = Lab(ROOT).port("LAB_PROMETHEUS_PORT")
    data = urllib.parse.urlencode({"query": query, "time": until}).encode()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query", data, timeout=30) as answer:
        series = json.load(answer)["data"]["result"]
    return [[(float(at), float(value)) for at, value in one["values"]] for one in series]


class Viewer(threading.Thread):
    """An open dashboard: asks all its queries at its refresh until `close`; keeps seconds of queries and of rounds."""

    # A browser has as many connections to a server; Grafana waits 30 s for an answer.
    AT_ONCE, PATIENCE_S = 6, 30

    def __init__(self, name: str) -> None:
        super().__init__(daemon=True)
        dashboard = json.loads((ROOT / f"grafana/dashboards/{name}.json").read_text(encoding="utf-8"))
        self.refresh_s, self.range_s = int(dashboard["refresh"][:-1]), 60 * int(dashboard["time"]["from"][4:-1])
        self.panels = len(dashboard["panels"])
        chosen = {one["name"]: one["current"]["value"] for one in dashboard["templating"]["list"]}
        filled = {**chosen, "__range": f"{self.range_s}s", "__rate_interval": "5s"}
        targets = [target for panel in dashboard["panels"] for target in panel.get("targets", [])]
        self.queries = [(_filled(target["expr"], filled), target.get("instant", False)) for target in targets]
        self.seconds: list[float] = []
        self.rounds: list[float] = []
        self.failed: list[str] = []
        self._closed = threading.Event()

    def run(self) -> None:
        with ThreadPoolExecutor(self.AT_ONCE) as pool:
            while not self._closed.wait(self.refresh_s):
                began = time.monotonic()
                list(pool.map(self._ask, self.queries))
                self.rounds.append(time.monotonic() - began)

    def _ask(self, query: tuple[str, bool]) -> None:
        expression, instant = query
        now, began = time.time(), time.monotonic()
        given = {"query": expression, "time": now}
        if not instant:
            given = {"query": expression, "start": now - self.range_s, "end": now, "step": 1}
        port = Lab(ROOT).port("LAB_PROMETHEUS_PORT")
        address = f"http://127.0.0.1:{port}/api/v1/query{'' if instant else '_range'}"
        try:
            with urllib.request.urlopen(
                address, urllib.parse.urlencode(given).encode(), timeout=self.PATIENCE_S
            ) as answer:
                answer.read()
        except OSError as error:
            # Before the lab's first container there is nothing to ask.
            if self.seconds:
                self.failed.append(f"{error}: {expression}")
            return
        self.seconds.append(time.monotonic() - began)

    def close(self) -> None:
        """Stop asking, and print the times."""
        self._closed.set()
        self.join()
        print(f"dashboard: {len(self.queries)} queries in {self.panels} panels, every {self.refresh_s} s")
        for what, seconds in (("a query", self.seconds), ("all queries", self.rounds)):
            middle, p99, longest = spread(seconds)
            print(
                f"{what}: {len(seconds)} times, {middle:.3f} s (median), {p99:.3f} s (p99), {longest:.3f} s (longest)"
            )
        print(f"queries failed: {len(self.failed)}", *self.failed[:1])


def _filled(expression: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        expression = expression.replace(f"${name}", value).replace(f"${{{name}}}", value)
    return expression


def spread(seconds: list[float]) -> tuple[float, float, float]:
    """Return median, p99 and longest."""
    ordered = sorted(seconds)
    return ordered[len(ordered) // 2], ordered[int(0.99 * (len(ordered) - 1))], ordered[-1]


def weigh(shares: int, alone: bool, began: float) -> None:
    """Set the watchers' weight as soon as they run; each run makes a new exporter."""
    limits = ["--cpu-shares", str(shares)]
    if alone:
        quota = round(PERIOD_US * shares / (shares + OTHERS_SHARES))
        limits = ["--cpu-shares", str(8 * OTHERS_SHARES), "--cpu-period", str(PERIOD_US), "--cpu-quota", str(quota)]
    project = project_name(ROOT)
    end = time.monotonic() + 120
    for service, age in (("prometheus", 0.0), ("exporter", began)):
        name = f"{project}-{service}-1"
        while _started(name) < age or not _started(name):
            if time.monotonic() > end:
                raise SystemExit(f"{name} was not started")
            time.sleep(0.2)
        subprocess.run(["docker", "update", *limits, name], capture_output=True, check=True)


def _started(name: str) -> float:
    """Return the Unix time of a container's start, 0 if there is none."""
    command = ["docker", "inspect", "--format", "{{.State.StartedAt}}", name]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    # The engine reports nanoseconds.
    return datetime.fromisoformat(f"{said[:19]}+00:00").timestamp() if said else 0.0


def run(options: argparse.Namespace, began: float) -> str:
    """Run the scenario once; return the run's id."""
    size = ["--messages", str(options.messages), "--repetitions", str(options.repetitions)]
    command = ["./lab", "run", options.scenario, "--intervals", "20", *size, "--allow-invalid", "--json"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as lab:
        if options.shares:
            weigh(options.shares, options.alone, began)
        said, _ = lab.communicate(timeout=600)
    if lab.returncode:
        raise SystemExit(lab.returncode)
    document = json.loads(said)
    return str((document["runs"][0] if "runs" in document else document)["run_id"])


def gaps(samples: Samples) -> list[float]:
    """Return the seconds from each sample to the next."""
    return [b - a for (a, _), (b, _) in pairwise(samples)]


def main() -> int:
    """Print the findings."""
    parser = argparse.ArgumentParser()
    parser.add_argument("scenario", nargs="?", default="scenario2")
    parser.add_argument("--messages", type=int, default=1000)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--shares", type=int, default=0)
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--dashboard", default="", metavar="NAME", help="a dashboard that is open meanwhile")
    options = parser.parse_args()
    viewer = Viewer(options.dashboard) if options.dashboard else None
    if viewer:
        viewer.start()
    began = time.time()
    run_id = run(options, began)
    ended = time.time()
    if viewer:
        viewer.close()
    name = f'scenario="{options.scenario}"'
    measured = [
        at for samples in raw(f"loop_run_active{{{name}}}", began, ended) for at, value in samples if value == 1
    ]
    if len(measured) < 2:
        print(f"{run_id}: the run was never seen while it went on, load of the machine {os.getloadavg()[0]:.1f}")
        return 1
    first, last = min(measured), max(measured)
    (up,) = raw('up{job="live"}', first, last)
    (seconds,) = raw('scrape_duration_seconds{job="live"}', first, last)
    sent = [samples for samples in raw(f"loop_messages_sent_total{{{name}}}", first, last) if samples]
    steps = Counter(b > a for samples in sent for (_, a), (_, b) in pairwise(samples))
    failed, longest = sum(value != 1 for _, value in up), max(gaps(up))
    durations = [value for _, value in seconds]
    missed = sum(round(gap) - 1 for gap in gaps(up) if gap > GAP_S)
    print(f"{run_id}: {last - first:.0f} s, load of the machine {os.getloadavg()[0]:.1f}")
    print(f"scrapes: {len(up)}, failed {failed}, missing {missed}, longest time between two {longest:.2f} s")
    middle, p99, slowest = spread(durations)
    print(f"a scrape takes {middle:.3f} s (median), {p99:.3f} s (p99), {slowest:.3f} s (longest)")
    print(f"messages sent: grown between {steps[True]} scrapes, the same between {steps[False]} (pauses between cells)")
    unanswered = bool(viewer and viewer.failed)
    return int(bool(failed or missed or slowest >= SLOW_S or not steps[True] or unanswered))


if __name__ == "__main__":
    sys.exit(main())
