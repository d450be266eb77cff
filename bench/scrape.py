"""What looking costs: O of one run, with Prometheus and exporter at work and frozen by turns.

    PYTHONPATH=src:tests/observability python3 bench/scrape.py [--seconds 240] [--interval-ms 10] [--runs 18] [--json]

One controller measures with an emulated robot, by default at 10 ms. Every five seconds Prometheus and the exporter are
stopped (SIGSTOP) or let go on (SIGCONT); each message belongs to the state it was sent in, the first second of
each state to none. results/ holds as many copies of finished runs as asked for, so that the stored page has its full
size. Needs Debian's mosquitto and prometheus. Exit code 1 where the p99 rose by more than 5 %; its interval says how
sure that is.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from observed_lab import Lab, until

from looplab.accounting import quantile

# Short, so that what else happens on the machine falls on both alike.
STATE_S = 5.0
SETTLE_S = 1.0
MESSAGES = 500
LIMIT = 0.05
DRAWS = 2000

# (from, to, watched) on the monotonic clock, ns.
State = tuple[int, int, bool]


def copies(lab: Lab, wanted: int) -> None:
    """Make `wanted` stored runs of different scenario and fidelity out of one full sweep's shape."""
    made = lab.run_to_its_end("copy0", INTERVALS_MS="8 4 2 1", MESSAGES=100, REPETITIONS=10)
    for number in range(1, wanted):
        run = json.loads((made / "run.json").read_text())
        name = f"copy{number}"
        run["scenario"] = run["parameters"]["scenario"] = name
        run["run_id"] = f"{made.name.partition('-')[0]}-{name}"
        folder = lab.results / run["run_id"]
        shutil.copytree(made, folder)
        (folder / "run.json").write_text(json.dumps(run))


def measure(lab: Lab, seconds: int, interval_ms: int) -> tuple[list[State], Path]:
    """One run, watched and not watched by turns."""
    before = set(lab.results.iterdir())
    repetitions = max(1, seconds * 1000 // interval_ms // MESSAGES)
    run = lab.run("bench", INTERVALS_MS=interval_ms, MESSAGES=MESSAGES, REPETITIONS=repetitions)
    until(lambda: lab.query('loop_messages_sent_total{scenario="bench"}'), 30, "the run is seen")
    states: list[State] = []
    watched = True
    while run.poll() is None:
        start = time.perf_counter_ns()
        end = time.monotonic() + STATE_S
        while time.monotonic() < end and run.poll() is None:
            time.sleep(0.2)
        states.append((start, time.perf_counter_ns(), watched))
        watched = not watched
        for name in ("prometheus", "exporter"):
            lab.signal(name, signal.SIGCONT if watched else signal.SIGSTOP)
    for name in ("prometheus", "exporter"):
        lab.signal(name, signal.SIGCONT)
    (folder,) = (path for path in set(lab.results.iterdir()) - before if (path / "run.json").exists())
    return states, folder


def blocks(states: list[State], folder: Path) -> dict[bool, list[list[int]]]:
    """O in ns of each state, watched and not."""
    found: dict[bool, list[list[int]]] = {True: [], False: []}
    with (folder / "samples.csv").open() as file:
        rows = [
            (int(r["sent_ns"]), round(float(r["overhead_us"]) * 1000)) for r in csv.DictReader(file) if r["total_us"]
        ]
    for start, end, watched in states:
        values = [o for sent, o in rows if start + SETTLE_S * 1e9 <= sent < end]
        if len(values) > 100:
            found[watched].append(values)
    return found


def p99_ms(parts: list[list[int]]) -> float:
    """The p99 of all values together."""
    return quantile(sorted(value for part in parts for value in part), 0.99) / 1e6


def interval(found: dict[bool, list[list[int]]]) -> tuple[float, float]:
    """95 % interval of the ratio of p99s, drawing whole states (neighbours are not independent)."""
    draw = random.Random(1)
    ratios = sorted(
        p99_ms(draw.choices(found[True], k=len(found[True]))) / p99_ms(draw.choices(found[False], k=len(found[False])))
        for _ in range(DRAWS)
    )
    return ratios[int(0.025 * DRAWS)] - 1, ratios[int(0.975 * DRAWS)] - 1


def cpu_s(pid: int) -> float:
    """CPU seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def resident_mib(pid: int) -> float:
    """Resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 2**20


def main() -> int:
    """Print a table, or JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=240)
    parser.add_argument("--interval-ms", type=int, default=10)
    parser.add_argument("--runs", type=int, default=18, help="stored runs in results/")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    lab = Lab(Path(tempfile.mkdtemp(prefix="looplab-bench-")))
    try:
        lab.start("broker")
        lab.start("bridge", "exporter", "prometheus")
        until(lambda: lab.query('up{job="live"} == 1'), 20, "Prometheus scrapes the exporter")
        copies(lab, options.runs)
        until(lambda: float(lab.query("count(loop_run_valid)")[0]["value"][1]) == options.runs, 60, "stored runs")
        started = {name: (cpu_s(lab.pid(name)), time.monotonic()) for name in ("exporter", "prometheus")}
        states, folder = measure(lab, options.seconds, options.interval_ms)
        watched_s = sum((end - start) / 1e9 for start, end, watched in states if watched)
        found = blocks(states, folder)
        on, off = p99_ms(found[True]), p99_ms(found[False])
        result = {
            "O_p99_ms": {"watched": on, "not_watched": off},
            "change": on / off - 1,
            "change_95_percent": interval(found),
            "median_of_states_p99_ms": {
                "watched": median(p99_ms([part]) for part in found[True]),
                "not_watched": median(p99_ms([part]) for part in found[False]),
            },
            "messages": {"watched": sum(map(len, found[True])), "not_watched": sum(map(len, found[False]))},
            "cores": {name: (cpu_s(lab.pid(name)) - spent) / watched_s for name, (spent, _at) in started.items()},
            "resident_mib": {name: resident_mib(lab.pid(name)) for name in started},
            "stored_runs": options.runs,
        }
    finally:
        lab.close()
        shutil.rmtree(lab.folder, ignore_errors=True)
    print(json.dumps(result, indent=1) if options.json else _table(result))
    return int(result["change"] > LIMIT)


def _table(result: dict) -> str:
    p99, count, cores = result["O_p99_ms"], result["messages"], result["cores"]
    low, high = result["change_95_percent"]
    return "\n".join(
        [
            f"O p99 watched {p99['watched']:.3f} ms of {count['watched']}, "
            f"not watched {p99['not_watched']:.3f} ms of {count['not_watched']}",
            f"change {result['change']:+.1%} (95 % from {low:+.1%} to {high:+.1%})",
            *(f"{name}: {value:.3f} cores, {result['resident_mib'][name]:.0f} MiB" for name, value in cores.items()),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
