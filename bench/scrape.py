"""Measure what observing costs: O of one run, with Prometheus and exporter running and stopped by turns.

    python3 bench/scrape.py [--seconds 600] [--interval-ms 20] [--scenario scenario1] [--json]

The lab's own containers: one `./lab run` measures. Every five seconds Prometheus and the exporter are stopped (SIGSTOP)
or resumed. Each message belongs to the state in which it was sent, the first second of each state to none. More runs in
results/ mean more to scrape (tests/support/stored_runs). Needs root and an idle machine after ./lab setup. Exit code 1
if the p99 rose by more than 5 % while watched; its interval shows how certain that is. Under stress a few stalls decide
a p99, so the program also prints the p95 and how long a run would have to be to tell 5 % from nothing. Scrapes come at
the same moment of each second: the p75 of the worst 20 ms of a second shows what one does to the messages beside it.
"""

import argparse
import csv
import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from looplab.lab.checkout import Lab  # noqa: E402
from looplab.run.accounting import quantile  # noqa: E402

WATCHERS = ("exporter", "prometheus")
# Short, so that other work of the machine affects both alike.
STATE_S = 5.0
SETTLE_S = 1.0
MESSAGES = 500
LIMIT = 0.05
DRAWS = 2000
SECOND_NS, MOMENT_NS = 1_000_000_000, 20_000_000

OFF, WATCHED = STATES = ("not watched", "watched")
# The messages of one turn: (when it was sent, O), ns.
Turn = list[tuple[int, int]]
# A latency in ms from some turns.
Figure = Callable[[list[Turn]], float]
# (from, to, one of STATES) on the monotonic clock, ns.
State = tuple[int, int, str]


def main_pid(service: str) -> int:
    """Return the process of the lab's container of `service`; ends the program if it does not run."""
    container = Lab(ROOT).compose().listed().get(service)
    if not container:
        sys.exit(f"The lab's {service} does not run: there is nothing to compare with.")
    inspect = ["docker", "inspect", "--format", "{{.State.Pid}}", container]
    return int(subprocess.run(inspect, check=True, capture_output=True, text=True).stdout)


def enter(state: str, pids: dict[str, int]) -> None:
    """Stop or resume Prometheus and exporter."""
    for pid in pids.values():
        os.kill(pid, signal.SIGSTOP if state == OFF else signal.SIGCONT)


def stores(scenario: str) -> set[Path]:
    """Return the samples of runs of `scenario` that are not finished, or never were."""
    return set((ROOT / "results").glob(f".*-{scenario}.partial/samples.csv"))


def sending(scenario: str, before: set[Path]) -> bool:
    """Return whether the run has answers on disk: its first repetition is over. `before` are the stores of others."""
    return any(path.stat().st_size > 1000 for path in stores(scenario) - before)


def measure(options: argparse.Namespace) -> tuple[list[State], dict[str, Any], dict[str, float]]:
    """Run once, watched by turns: return (states, run.json, the watchers' CPU seconds a watched second)."""
    repetitions = max(2, options.seconds * 1000 // options.interval_ms // MESSAGES)
    words = ["--fidelity", "corrected", "--intervals", str(options.interval_ms), "--messages", str(MESSAGES)]
    words += ["--repetitions", str(repetitions), "--json", "--allow-invalid"]
    before = stores(options.scenario)
    run = subprocess.Popen([ROOT / "lab", "run", options.scenario, *words], stdout=subprocess.PIPE, text=True)
    while run.poll() is None and not sending(options.scenario, before):
        time.sleep(0.2)
    pids = {name: main_pid(name) for name in WATCHERS}
    spent = {name: cpu_s(pid) for name, pid in pids.items()}
    states: list[State] = []
    try:
        while run.poll() is None and sending(options.scenario, before):
            state = STATES[len(states) % len(STATES)]
            enter(state, pids)
            start, end = time.perf_counter_ns(), time.monotonic() + STATE_S
            while time.monotonic() < end and run.poll() is None:
                time.sleep(0.2)
            states.append((start, time.perf_counter_ns(), state))
    finally:
        enter(WATCHED, pids)
    watched_s = sum((end - start) / 1e9 for start, end, state in states if state != OFF)
    cores = {name: (cpu_s(pid) - spent[name]) / watched_s for name, pid in pids.items()}
    document = json.loads(run.communicate()[0])["runs"][0]
    return states, document, cores


def blocks(states: list[State], folder: Path) -> dict[str, list[Turn]]:
    """Return each state's turns."""
    found: dict[str, list[Turn]] = {state: [] for state in STATES}
    with (folder / "samples.csv").open() as file:
        rows = [
            (int(r["sent_ns"]), round(float(r["overhead_us"]) * 1000)) for r in csv.DictReader(file) if r["overhead_us"]
        ]
    for start, end, state in states:
        values = [(sent, o) for sent, o in rows if start + SETTLE_S * 1e9 <= sent < end]
        if len(values) > 100:
            found[state].append(values)
    return found


def quantile_ms(share: float, parts: list[Turn]) -> float:
    """Return a quantile of all values together."""
    return quantile(sorted(value for part in parts for _, value in part), share) / 1e6


p95_ms, p99_ms = partial(quantile_ms, 0.95), partial(quantile_ms, 0.99)


def p99_of_a_turn_ms(parts: list[Turn]) -> float:
    """Return the median p99 of the turns, which a few long stalls do not decide."""
    return median(p99_ms([turn]) for turn in parts)


def worst_moment_ms(parts: list[Turn]) -> float:
    """Return the p75 of the worst 20 ms of a second, in which a scrape shows although a p99 hides it."""
    moments: dict[int, list[int]] = {}
    for sent, value in chain.from_iterable(parts):
        moments.setdefault(sent % SECOND_NS // MOMENT_NS, []).append(value)
    return max(quantile(sorted(values), 0.75) for values in moments.values()) / 1e6


FIGURES: dict[str, Figure] = {
    "p95": p95_ms,
    "p99": p99_ms,
    "p99 of a turn": p99_of_a_turn_ms,
    "worst 20 ms": worst_moment_ms,
}


def interval(watched: list[Turn], off: list[Turn], figure: Figure) -> tuple[float, float]:
    """Return the 95 % interval of the change of `figure`, drawing whole turns (neighbours are not independent)."""
    draw = random.Random(1)
    ratios = sorted(
        figure(draw.choices(watched, k=len(watched))) / figure(draw.choices(off, k=len(off))) for _ in range(DRAWS)
    )
    return ratios[int(0.025 * DRAWS)] - 1, ratios[int(0.975 * DRAWS)] - 1


def needed_hours(change: tuple[float, float], seconds: float) -> float:
    """Return how long a run takes whose interval is LIMIT wide to each side; its width falls with the square root."""
    half = math.log((1 + change[1]) / (1 + change[0])) / 2
    return (half / math.log(1 + LIMIT)) ** 2 * seconds / 3600


def compared(found: dict[str, list[Turn]], figure: Figure, seconds: float) -> dict[str, Any]:
    """Return one figure of both states, its change with a 95 % interval, and how long would be needed for LIMIT."""
    off, watched = (figure(found[state]) for state in STATES)
    change = interval(found[WATCHED], found[OFF], figure)
    return {
        "not_watched_ms": off,
        "watched_ms": watched,
        "change": watched / off - 1,
        "change_95_percent": change,
        "needed_hours": needed_hours(change, seconds),
    }


def cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> int:
    """Print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--interval-ms", type=int, default=20)
    parser.add_argument("--scenario", default="scenario1")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    stored = len(list((ROOT / "results").glob("*/run.json")))
    states, run, cores = measure(options)
    found = blocks(states, ROOT / "results" / run["run_id"])
    seconds = sum(end - start for start, end, _ in states) / 1e9
    result = {
        "messages": {state: sum(map(len, turns)) for state, turns in found.items()},
        "O": {name: compared(found, figure, seconds) for name, figure in FIGURES.items()},
        "cores": cores,
        "stored_runs": stored,
        "valid": run["valid"],
    }
    print(json.dumps(result, indent=1) if options.json else _table(result))
    return int(result["O"]["p99"]["change"] > LIMIT)


def _table(result: dict[str, Any]) -> str:
    lines = ["messages: " + ", ".join(f"{number} {state}" for state, number in result["messages"].items())]
    lines.append(f"{'O':<13} {OFF:>12} {WATCHED:>12} {'change':>8} {'95 % interval':>18} {'to tell 5 %':>12}")
    for name, one in result["O"].items():
        low, high = one["change_95_percent"]
        lines.append(
            f"{name:<13} {one['not_watched_ms']:>9.3f} ms {one['watched_ms']:>9.3f} ms {one['change']:>+8.1%} "
            f"{f'{low:+.1%} to {high:+.1%}':>18} {one['needed_hours']:>10.1f} h"
        )
    lines += [f"{name}: {value:.3f} cores" for name, value in result["cores"].items()]
    lines.append(f"{result['stored_runs']} runs stored before; this one is {'VALID' if result['valid'] else 'INVALID'}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
