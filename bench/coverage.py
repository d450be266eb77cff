"""Measure how often the report's 95 % intervals cover the true value, for latencies of known distribution.

    python bench/coverage.py [--times 4000] [10x100 3x100 ...]       repetitions x messages

Prints a line for each distribution, of mean, p50, p95 and p99: the intervals of 100 that cover the true value, how many
lie wholly above it, how many have no end (upwards, or down to 0), and their median width as a share of the true value.
Then how much the mean allows: the width of an interval that always covers in 95 of 100, because it knows how means of
this distribution vary.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from support.latency_models import HELD_OUT, MODELS, Model, truth  # noqa: E402

from looplab.report.repetitions import cell_intervals  # noqa: E402

SHARES = [0.5, 0.95, 0.99]
FIGURES = ("mean", "p50", "p95", "p99")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=4000)
    parser.add_argument("sizes", nargs="*", default=["10x100", "30x100", "5x100", "3x100", "10x25"])
    options = parser.parse_args()
    for size in options.sizes:
        repetitions, messages = map(int, size.split("x"))
        heads = "".join(f"{name:>23}" for name in FIGURES)
        print(f"{size:<12}{heads}{'mean, known':>14}   (covered, above, open, width)")
        for models in (MODELS, HELD_OUT):
            shares = []
            for name, model in models.items():
                found, known = tried(model, repetitions, messages, options.times)
                shares.append(found[0])
                cells = "".join(f"{c:>10.1f} {a:4.1f} {o:3.0f}{w:5.2f}" for c, a, o, w in found.T)
                print(f"{name:<12}{cells}{known:>14.2f}", flush=True)
            print(f"{'all':<12}" + "".join(f"{share:>10.1f}{'':13}" for share in np.mean(shares, axis=0)))


def tried(model: Model, repetitions: int, messages: int, times: int) -> tuple[np.ndarray, float]:
    """Return four lines of a column a figure: covered, above, open (in 100), relative median width; and the last width.

    The last is that of the mean's interval by one who knows its distribution.
    """
    true, rng = truth(model, SHARES), np.random.default_rng(5)
    whose = np.repeat(np.arange(repetitions), messages)
    ends, means = np.empty((times, len(FIGURES), 2)), np.empty(times)
    for k in range(times):
        mean, quantiles = cell_intervals(model(rng, repetitions, messages).ravel(), whose, SHARES)
        ends[k] = [(interval.low, interval.high) for interval in (mean, *quantiles)]
        means[k] = mean.estimate
    low, high = ends[..., 0], ends[..., 1]
    counted = [(low <= true) & (true <= high), low > true, np.isinf(high) | (low <= 0)]
    longest, shortest = float(np.median(means)) / np.quantile(means, [0.025, 0.975])
    width = np.median(high - low, axis=0) / true
    return np.array([*(100 * c.mean(axis=0) for c in counted), width]), longest - shortest


if __name__ == "__main__":
    main()
