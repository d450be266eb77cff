"""Measure time and memory of ./lab report: nine scenarios of 4000 messages, and ten million messages.

    python bench/report.py [--repeat 5] [--messages 10000000]

Limits: 3 s for the nine, 60 s and 2 GiB for the ten million, on 2 idle cores. Prints the machine's load beside its
figures.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from support.run_checks import SAMPLES_HEADER  # noqa: E402
from support.simulated_runs import nine_scenarios, simulated_cell, write_run  # noqa: E402

PIECE = 1_000_000
MESSAGES = 1000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--messages", type=int, default=10_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        nine, many = Path(place) / "nine", Path(place) / "many"
        nine_scenarios(nine / "results")
        figures = [timed(nine) for _ in range(options.repeat)]
        show("nine scenarios of 4000 messages (two of them 1000 and 3000)", figures)
        large_run(many / "results", options.messages)
        show(f"{options.messages:,} messages in one cell", [timed(many)])


def timed(root: Path) -> tuple[float, float, float]:
    """Return wall seconds, processor seconds (with children) and largest resident MiB of one report."""
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        os.environ.update(LAB_ROOT=str(root), PYTHONPATH=str(ROOT / "src"))
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.execv(sys.executable, [sys.executable, "-m", "looplab.lab.cli", "report", "--out", str(root / "report")])
    _, status, used = os.wait4(child, 0)
    if status:
        raise SystemExit(f"./lab report failed with {status}")
    return time.monotonic() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def show(what: str, figures: list[tuple[float, float, float]]) -> None:
    wall, cpu, resident = (statistics.median(column) for column in zip(*figures, strict=True))
    best = min(figure[0] for figure in figures)
    load = os.getloadavg()[0]
    print(f"{what}: median {wall:.2f} s (best {best:.2f} s, {cpu:.2f} s of processor), {resident:.0f} MiB")
    print(f"  load of the machine {load:.1f}")


def large_run(results: Path, messages: int) -> None:
    """Return one cell of so many messages, in repetitions of a thousand."""
    rng = np.random.default_rng(1)
    folder = write_run(results, "scenario1", cells={(20.0, 0): simulated_cell(rng, 2, 2, 900, 4290)})
    sums = np.zeros(3)
    with (folder / "samples.csv").open("wb") as file:
        file.write(SAMPLES_HEADER.encode() + b"\n")
        for start in range(0, messages, PIECE):
            k = np.arange(start, min(messages, start + PIECE))
            due = 10**12 + k * 20_000_000
            overhead = np.round(rng.lognormal(6.9, 0.4, k.size) * np.exp(rng.normal(0, 0.05)), 3)
            robot = np.round(rng.normal(4290, 80, k.size), 3)
            total = overhead + robot
            sums += [total.sum(), robot.sum(), overhead.sum()]
            columns = [
                np.full(k.size, 20),
                np.zeros(k.size, dtype=int),
                k // MESSAGES,
                k,
                due,
                due + 30_000,
                due + 30_000 + (total * 1000).astype(np.int64),
                total,
                robot,
                overhead,
                np.full(k.size, "answered"),
            ]
            frame = pd.DataFrame(dict(zip(SAMPLES_HEADER.split(","), columns, strict=True)))
            frame.to_csv(file, header=False, index=False, float_format="%.3f")
    run = json.loads((folder / "run.json").read_text())
    run["parameters"] |= {"messages": MESSAGES, "repetitions": messages // MESSAGES}
    run["cells"][0] |= {"sent": messages, "answered": messages}
    for name, total_us in zip("TRO", sums, strict=True):
        run["cells"][0][f"{name}_us"] = {"avg": total_us / messages}
    (folder / "run.json").write_text(json.dumps(run))


if __name__ == "__main__":
    main()
