"""Measure the time from the first message to the live dashboard's first curve: exporter and Prometheus, no containers.

    .venv/bin/python bench/first_curve.py [--rounds 5]

Exit code 1 if the slowest round takes more than 10 s. Each round is a lab of its own on loopback, with Debian's broker
and Prometheus (apt-get install mosquitto prometheus).
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / place) for place in ("src", "tests")]

from support.first_curve import first_curve_s  # noqa: E402
from support.observed_lab import observed  # noqa: E402

LIMIT_S = 10


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    figures = []
    for _ in range(parser.parse_args().rounds):
        with tempfile.TemporaryDirectory() as place, observed(Path(place)) as lab:
            figures.append(first_curve_s(lab, "scenario2"))
    shown = " ".join(f"{figure:.2f}" for figure in figures)
    print(f"first curve after {shown} s; limit {LIMIT_S} s; load of the machine {os.getloadavg()[0]:.1f}")
    return int(max(figures) > LIMIT_S)


if __name__ == "__main__":
    sys.exit(main())
