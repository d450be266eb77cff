"""Measure how long the reports of 100 workers with 10 million values each take to be merged, and the memory for it.

    python3 bench/merge.py [--workers 100] [--values 10000000]

A process of its own writes the reports: counts of log-normal latencies, drawn by bucket. One worker is left out, the
counts of another are wrong: the merge must name both. Prints the seconds to read and merge, the peak of the memory, and
how far p50, p99 and the largest value are from the truth.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from math import erf, exp, log, sqrt
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from looplab.system.histogram import Histogram, merge_reports, upper_ns  # noqa: E402

# Of the logarithm: half of the values lie within 0.5 to 2 ms, one of a thousand is beyond 20 ms.
MEDIAN_NS, SIGMA = 1e6, 1.0
# Of a normal distribution.
P99 = 2.3263


def write(folder: Path, workers: int, values: int) -> None:
    import numpy as np

    rng = np.random.default_rng(1)
    uppers = np.unique([upper_ns(round(at)) for at in np.geomspace(2048, 2e9, 200_000)])
    below = np.array([0.5 * (1 + erf(log(upper / MEDIAN_NS) / SIGMA / sqrt(2))) for upper in uppers])
    shares = np.diff(np.concatenate([[0.0], below]))
    for worker in range(workers):
        counts = rng.multinomial(values, shares / shares.sum())
        there = counts > 0
        found = {int(upper): int(count) for upper, count in zip(uppers[there], counts[there], strict=True)}
        made = Histogram(found, int((uppers * counts).sum()), min(found), max(found))
        (folder / f"{worker}.json").write_text(json.dumps([values, made.as_json()]))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=100)
    parser.add_argument("--values", type=int, default=10_000_000)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    if options.write:
        write(options.write, options.workers, options.values)
        return 0
    with TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run([sys.executable, __file__, "--write", name, *sys.argv[1:]], check=True)
        (folder / "3.json").write_text(json.dumps([options.values + 1, json.loads((folder / "3.json").read_text())[1]]))
        (folder / "7.json").unlink()
        begun_s = time.perf_counter()
        files = {f"worker {at}": folder / f"{at}.json" for at in range(options.workers)}
        size = sum(file.stat().st_size for file in files.values() if file.exists())
        merge = merge_reports(
            {who: tuple(json.loads(file.read_text())) if file.exists() else (0, None) for who, file in files.items()}
        )
        summary = merge.histogram.summary_us()
        took_s = time.perf_counter() - begun_s
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    print(
        f"{merge.histogram.count} values in reports of {size / 1e6:.0f} MB: {took_s:.1f} s, {peak_mb:.0f} MB of memory"
    )
    truth_us = {"p50": MEDIAN_NS / 1000, "p99": MEDIAN_NS / 1000 * exp(P99 * SIGMA)}
    print(*(f"{name} {summary[name]} us, drawn from {value:.1f}" for name, value in truth_us.items()), sep="\n")
    print(*merge.missing, *merge.faults, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
