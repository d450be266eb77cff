"""Measure, on simulated studies of known truth, how often verdicts err and how often their intervals hold the truth.

    python bench/verdicts.py [--studies 1000] [--rounds 3,4,5,6,10,23]

A simulated run has a level of its own (SD 5, 10 or 30 % of the mean O: calm, usual, under stress), ten repetitions
within it, and now and then an outlier. Prints for each number of rounds: null studies called different, what is found
of a shift of one and two SD of a run, coverage of the intervals of the change and of one side's mean.
"""

import argparse
import math
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src")]

from looplab.report.statistics import called, compare, least_p, over_runs  # noqa: E402

# Run effects on the scale of the logarithm: their SD, and the share of runs that stall and take half as long again.
MACHINES = {"calm": (0.05, 0.0), "usual": (0.10, 0.0), "stressed": (0.30, 0.0), "outliers": (0.10, 0.05)}
REPETITIONS, REPETITION_SD = 10, 0.05
STALL = math.log(1.5)


def runs(rng: np.random.Generator, studies: int, rounds: int, machine: str, shift: float = 0.0) -> np.ndarray:
    """Return ln(mean O) of each run, a study a row."""
    sd, stalls = MACHINES[machine]
    levels = rng.normal(shift, sd, (studies, rounds)) + STALL * (rng.random((studies, rounds)) < stalls)
    return np.asarray(np.log(np.exp(levels[..., None] + rng.normal(0, REPETITION_SD, (*levels.shape, 10))).mean(-1)))


def unit_sd(machine: str) -> float:
    """Return the SD of a run's ln(mean O)."""
    return float(runs(np.random.default_rng(1), 4000, 5, machine).std(ddof=1))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--studies", type=int, default=1000)
    parser.add_argument("--rounds", default="3,4,5,6,10,23")
    options = parser.parse_args()
    print(f"{'runs a side':<12}{'machine':<10}{'null':>7}{'1 SD':>7}{'2 SD':>7}{'change':>8}{'mean':>7}   least p")
    for rounds in map(int, options.rounds.split(",")):
        for machine in MACHINES:
            print(line(rounds, machine, options.studies), flush=True)


def line(rounds: int, machine: str, studies: int) -> str:
    rng, sd = np.random.default_rng(rounds), unit_sd(machine)
    shares = [
        called(runs(rng, studies, rounds, machine), runs(rng, studies, rounds, machine, k * sd)).mean()
        for k in (0.0, 1.0, 2.0)
    ]
    change, mean = coverage(rng, studies, rounds, machine)
    words = f"{least_p(rounds, rounds):.2g}"
    found = "".join(f"{share:>7.3f}" for share in shares)
    return f"{rounds:<12}{machine:<10}{found}{change:>8.3f}{mean:>7.3f}   {words}"


def coverage(rng: np.random.Generator, studies: int, rounds: int, machine: str) -> tuple[float, float]:
    """Return how often the intervals of a change of +20 % and of one side's mean hold the truth."""
    truth = float(runs(np.random.default_rng(2), 20_000, 5, machine).mean())
    shift, held = math.log(1.2), [0, 0]
    for _ in range(studies):
        before, after = (np.exp(runs(rng, 1, rounds, machine, by)[0]) for by in (0.0, shift))
        change, mean = compare(before, after), over_runs(list(before))
        held[0] += change is not None and change.share.low <= math.expm1(shift) <= change.share.high
        held[1] += mean is not None and mean.low <= math.exp(truth) <= mean.high
    return held[0] / studies, held[1] / studies


if __name__ == "__main__":
    main()
