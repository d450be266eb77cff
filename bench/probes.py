#!/usr/bin/env python3
"""Measure what the noise probes of a run cost: the processor time of each, as a share of its processor.

The probes of `looplab.treatments.noise` themselves, as the treatments service starts them. Processor time is counted by
the kernel in ns, so other work of the machine changes it little. Exit code 1 if one takes 1 % or more.

    sudo .venv/bin/python bench/probes.py [--seconds 20]
"""

import argparse
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from looplab.treatments.noise import Probes  # noqa: E402

LIMIT = 0.01


def spent_ns() -> dict[int, int]:
    """Return the processor time so far of each child of this process."""
    own = os.getpid()
    children = map(int, Path(f"/proc/{own}/task/{own}/children").read_text().split())
    return {pid: int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) for pid in children}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0)
    seconds = parser.parse_args().seconds
    probes = Probes()
    time.sleep(1)
    before, start_ns = spent_ns(), time.monotonic_ns()
    time.sleep(seconds)
    span_ns, after = time.monotonic_ns() - start_ns, spent_ns()
    shares = [(after[pid] - before[pid]) / span_ns for pid in before]
    for entry, share in zip(probes.read(), shares, strict=True):
        print(f"processor {entry['processor']}, {entry['policy']}: {share:.2%} of it, {entry['wakeups']} wake-ups")
    print(f"at most {max(shares):.2%} (limit {LIMIT:.0%}): {'ok' if max(shares) < LIMIT else 'MISSED'}")
    return int(max(shares) >= LIMIT)


if __name__ == "__main__":
    sys.exit(main())
