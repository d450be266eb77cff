"""Measure 500 stored runs: the time until the exporter shows them and a new one, and their memory.

    .venv/bin/python bench/stored_runs.py [--runs 500]
    .venv/bin/python bench/stored_runs.py --runs 46 --into results     # only writes the runs, for bench/memory.sh

Runs of 4 intervals x 1000 messages, of nine scenarios in both fidelities by turns; real exporter, real Prometheus.
Limits: the live page within 5 s of the exporter's start, a new run within 5 s of its end; else exit code 1.
"""

import argparse
import json
import os
import random
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / place) for place in ("src", "tests")]

from support.observed_lab import Lab  # noqa: E402
from support.waiting import until  # noqa: E402

from looplab.experiments.loop import LoopCell  # noqa: E402
from looplab.run.document import samples_header  # noqa: E402

SAMPLES_HEADER = samples_header(LoopCell)
INTERVALS_MS = (100, 50, 20, 10)
MESSAGES = 1000
LIMIT_S = 5
FIRST = datetime(2026, 1, 1, tzinfo=UTC)


def samples(path: Path) -> Path:
    """Return one samples.csv for all: latencies like the robot's, R about 4 ms, O about 1 ms with a tail."""
    draw = random.Random(1)
    lines = [SAMPLES_HEADER]
    for interval_ms in INTERVALS_MS:
        for k in range(MESSAGES):
            due = k * interval_ms * 1_000_000
            robot, rest = int(draw.lognormvariate(15.2, 0.2)), int(draw.lognormvariate(13.7, 0.7))
            times = f"{due},{due + 5000},{due + 5000 + robot + rest}"
            latencies = f"{(robot + rest) / 1000:.3f},{robot / 1000:.3f},{rest / 1000:.3f}"
            lines.append(f"{interval_ms},0,0,{k},{times},{latencies},answered")
    path.write_text("\n".join(lines) + "\n")
    return path


def store(results: Path, number: int, shared: Path) -> str:
    """Run `number`, written under a temporary name as a controller does; returns its id."""
    scenario, fidelity = f"scenario{number % 9}", ("thesis", "corrected")[number // 9 % 2]
    run_id = f"{FIRST + timedelta(hours=number):%Y%m%dT%H%M%SZ}-{scenario}"
    folder = results / f".{run_id}"
    folder.mkdir()
    os.link(shared, folder / "samples.csv")
    counts = {"sent": MESSAGES, "answered": MESSAGES, "late": 0, "lost": 0, "robot_errors": 0}
    parameters = {"intervals_ms": INTERVALS_MS, "qos": [0], "messages": MESSAGES, "repetitions": 1}
    names = {"run_id": run_id, "scenario": scenario, "fidelity": fidelity}
    run = {
        "schema": 1,
        **names,
        "valid": True,
        "parameters": {**names, **parameters},
        "cells": [{"interval_ms": interval_ms, "qos": 0, **counts} for interval_ms in INTERVALS_MS],
        "treatments": [],
    }
    (folder / "run.json").write_text(json.dumps(run))
    folder.rename(results / run_id)
    return run_id


def resident_mib(lab: Lab, name: str) -> float:
    status = Path(f"/proc/{lab.pid(name)}/status").read_text()
    return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmRSS"))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--into", type=Path, metavar="FOLDER", help="write the runs there, measure nothing")
    options = parser.parse_args()
    runs = options.runs
    if options.into:
        shared = samples(options.into / ".samples.csv")
        for number in range(runs):
            store(options.into, number, shared)
        shared.unlink()
        return 0
    with tempfile.TemporaryDirectory() as place:
        lab = Lab(Path(place))
        shared = samples(lab.folder / "samples.csv")
        for number in range(runs):
            store(lab.results, number, shared)
        try:
            return measure(lab, runs, shared)
        finally:
            lab.close()


def measure(lab: Lab, runs: int, shared: Path) -> int:
    def since(began: float) -> float:
        return time.monotonic() - began

    shown = min(runs, 18)
    began = time.monotonic()
    lab.start("broker", "exporter", "prometheus")
    until(lambda: lab.page("/metrics/live"), "the live page", 60)
    live_s = since(began)
    until(lambda: lab.page("/metrics/stored").count("\nloop_run_info{") == shown, "the newest runs on the page", 60)
    all_s = since(began)
    until(lambda: lab.query(f"count(loop_run_info) == {shown}"), "the newest runs in Prometheus", 60)
    prometheus_s = since(began)
    began = time.monotonic()
    new = store(lab.results, runs, shared)
    until(lambda: lab.query(f'loop_run_info{{run_id="{new}"}}'), "the new run in Prometheus", 60)
    new_s = since(began)
    # Two more scrapes of the stored page.
    time.sleep(31)
    print(f"{runs} stored runs, load of the machine {os.getloadavg()[0]:.1f}; limit {LIMIT_S} s")
    print(f"after the exporter's start: live page {live_s:.2f} s, all on the stored page {all_s:.2f} s,")
    print(f"all in Prometheus {prometheus_s:.2f} s; a new run in Prometheus {new_s:.2f} s after its end")
    for name in ("exporter", "prometheus"):
        print(f"{name}: {resident_mib(lab, name):.0f} MiB resident")
    return int(max(live_s, new_s) > LIMIT_S)


if __name__ == "__main__":
    sys.exit(main())
