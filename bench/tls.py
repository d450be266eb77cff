#!/usr/bin/env python3
"""Measure what TLS costs: scenario 1, corrected, 20 ms, plain and with TLS by turns, controller and bridge alike.

Prints a line a run, then the medians of TLS's figures over the plain ones of the same round: O p50 and p99, and O p50
where (encrypted) bytes enter and leave the sockets, which includes the broker's cryptography but not that of controller
and bridge. With `--of logging` both have TLS, and in the second the broker logs every message (BROKER_VERBOSE=-v).

    python3 bench/tls.py [--of tls] [--rounds 5] [--messages 100] [--repetitions 5] [--qos 0]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# Names and variables of the baseline and of the variant.
Way = tuple[str, dict[str, str]]
COMPARED: dict[str, tuple[Way, Way]] = {
    "tls": (("TLS off", {"BROKER_TLS": "off"}), ("TLS on", {"BROKER_TLS": "on"})),
    "logging": (("quiet", {"BROKER_TLS": "on"}), ("verbose", {"BROKER_TLS": "on", "BROKER_VERBOSE": "-v"})),
}
FIGURES = (("O_us", "p50"), ("O_us", "p99"), ("transport_O_us", "p50"))


def measure(options: argparse.Namespace, way: Way) -> dict[str, Any]:
    """Return the only cell of one run."""
    name, variables = way
    words = ["--fidelity", "corrected", "--intervals", "20", "--messages", str(options.messages)]
    words += ["--repetitions", str(options.repetitions), "--qos", str(options.qos), "--json", "--allow-invalid"]
    command = [ROOT / "lab", "run", "scenario1", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **variables})
    if done.returncode:
        sys.exit(done.stderr)
    (run,) = json.loads(done.stdout)["runs"]
    if not run["valid"]:
        print(f"{name} is INVALID: {run['invalid_because']}")
    cell: dict[str, Any] = run["cells"][0]
    return cell


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--of", default="tls", choices=COMPARED)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--messages", type=int, default=100)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--qos", type=int, default=0, choices=(0, 1, 2))
    options = parser.parse_args()
    ratios: dict[tuple[str, str], list[float]] = {figure: [] for figure in FIGURES}
    differences_us: list[float] = []
    plain, dear = COMPARED[options.of]
    for number in range(1, options.rounds + 1):
        # The order alternates, so that a drift of the machine favours neither.
        order = (plain, dear) if number % 2 else (dear, plain)
        cells = {way[0]: measure(options, way) for way in order}
        for way, cell in cells.items():
            shown = "  ".join(f"{name[:-3]} {which} {cell[name][which]:6.0f}" for name, which in FIGURES)
            print(f"round {number} {way:>7}: {shown} us  lost {cell['lost']}", flush=True)
        before, after = cells[plain[0]], cells[dear[0]]
        for name, which in FIGURES:
            ratios[name, which].append(after[name][which] / before[name][which])
        differences_us.append(after["O_us"]["p50"] - before["O_us"]["p50"])
    for (name, which), values in ratios.items():
        print(f"{name[:-3]:>12} {which}: {statistics.median(values):.2f} x ({min(values):.2f} to {max(values):.2f})")
    print(f"       O p50: {statistics.median(differences_us):+.0f} us")
    return 0


if __name__ == "__main__":
    sys.exit(main())
