"""Measure how often the report's 95 % intervals cover the true value, for latencies of known distribution.

    python bench/coverage.py [--times 1000] [10x100 3x100 ...]       repetitions x messages

Prints a line for each distribution: the share of intervals that cover the true value, how often they are open, and
their median width as a share of the true value.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from support.latency_models import MODELS, Model, truth  # noqa: E402

from looplab.report.statistics import cell_intervals  # noqa: E402

SHARES = [0.5, 0.95, 0.99]
FIGURES = ("mean", "p50", "p95", "p99")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=1000)
    parser.add_argument("sizes", nargs="*", default=["10x100", "30x100", "5x100", "3x100", "10x25"])
    options = parser.parse_args()
    for size in options.sizes:
        repetitions, messages = map(int, size.split("x"))
        print(f"{size:<12}" + "".join(f"{name:>22}" for name in FIGURES) + "   (covered, open, width)")
        shares = []
        for name, model in MODELS.items():
            covered, infinite, width = tried(model, repetitions, messages, options.times)
            shares.append(covered)
            cells = [f"{c:.3f} {o:.2f} {w:6.2f}" for c, o, w in zip(covered, infinite, width, strict=True)]
            print(f"{name:<12}" + "".join(f"{cell:>22}" for cell in cells), flush=True)
        print(f"{'all':<12}" + "".join(f"{share:>9.3f}{'':13}" for share in np.mean(shares, axis=0)))


def tried(model: Model, repetitions: int, messages: int, times: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return coverage, share of open intervals, relative median width; for mean, p50, p95, p99."""
    true, rng = truth(model, SHARES), np.random.default_rng(5)
    whose = np.repeat(np.arange(repetitions), messages)
    ends = np.empty((times, len(FIGURES), 2))
    for k in range(times):
        mean, quantiles = cell_intervals(model(rng, repetitions, messages).ravel(), whose, SHARES)
        ends[k] = [(interval.low, interval.high) for interval in (mean, *quantiles)]
    held = (ends[..., 0] <= true) & (true <= ends[..., 1])
    width = np.median(ends[..., 1] - ends[..., 0], axis=0) / true
    return held.mean(axis=0), np.isinf(ends[..., 1]).mean(axis=0), width


if __name__ == "__main__":
    main()
