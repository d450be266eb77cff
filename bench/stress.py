#!/usr/bin/env python3
"""Measure what CPU stress does, and what priority does against it: scenarios 1, 2 and 5, corrected, 20 ms, in turn.

Prints one line a run, then the medians against their limits:
  scenario 5: send lateness p99 at most 1 ms, O p95 at most 1.3 x the unstressed
  R p99 under stress at most 1.2 x R p99 without, queueing excluded: bridge and robot are apart from the load. In
  scenario 2 requests come late and in bunches and queue at the robot; that wait is printed beside it.

    python3 bench/stress.py [--rounds 5] [--messages 100] [--repetitions 5]
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SCENARIOS = ("scenario1", "scenario2", "scenario5")


def measure(options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Run each scenario once; return the only cell of each by the scenario's name."""
    words = ["--fidelity", "corrected", "--intervals", "20", "--messages", str(options.messages)]
    words += ["--repetitions", str(options.repetitions), "--json", "--allow-invalid"]
    done = subprocess.run([ROOT / "lab", "run", *SCENARIOS, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    runs = json.loads(done.stdout)["runs"]
    for run in runs:
        if not run["valid"]:
            print(f"{run['scenario']} is INVALID: {run['invalid_because']}")
    return {run["scenario"]: run["cells"][0] for run in runs}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--messages", type=int, default=100)
    parser.add_argument("--repetitions", type=int, default=5)
    options = parser.parse_args()
    figures: dict[str, list[float]] = {"lateness": [], "O": [], "R stressed": [], "R prioritised": []}
    for number in range(1, options.rounds + 1):
        cells = measure(options)
        for name, cell in cells.items():
            print(
                f"round {number} {name}: O p50 {cell['O_us']['p50']:6.0f} p95 {cell['O_us']['p95']:6.0f} "
                f"p99 {cell['O_us']['p99']:6.0f}  R p99 {cell['R_us']['p99']:6.0f} "
                f"free {cell['service_R_us']['p99']:5.0f}  "
                f"lateness p99 {cell['send_lateness_us']['p99']:6.0f} us",
                flush=True,
            )
        plain, stressed, prioritised = (cells[name] for name in SCENARIOS)
        figures["lateness"].append(prioritised["send_lateness_us"]["p99"] / 1000)
        figures["O"].append(prioritised["O_us"]["p95"] / plain["O_us"]["p95"])
        figures["R stressed"].append(stressed["service_R_us"]["p99"] / plain["service_R_us"]["p99"])
        figures["R prioritised"].append(prioritised["service_R_us"]["p99"] / plain["service_R_us"]["p99"])
    limits = {"lateness": (1.0, "ms"), "O": (1.3, "x"), "R stressed": (1.2, "x"), "R prioritised": (1.2, "x")}
    for what, values in figures.items():
        value, (limit, unit) = statistics.median(values), limits[what]
        print(f"{what:>14}: {value:.2f} {unit} (at most {limit}) {'ok' if value <= limit else 'MISSED'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
