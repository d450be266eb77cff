"""Measure what observing costs: O of one run, with Prometheus and exporter running and stopped by turns.

    python3 bench/scrape.py [--seconds 150] [--interval-ms 10] [--scenario scenario1] [--keep FOLDER]

The lab's own containers: one `./lab run` measures. Every five seconds Prometheus and the exporter are stopped (SIGSTOP)
or resumed. Each message belongs to the state in which it was sent, the first second of each state to none. Needs
root and an idle machine after ./lab setup. Under stress a few stalls decide a p99.
"""

import argparse
import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from kept import keeping, options, read_csv, write_rows

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from looplab.lab.checkout import Lab  # noqa: E402

WATCHERS = ("exporter", "prometheus")
# Whose memory is no part of the lab's own need.
APART = ("grafana", "stress")
# Short, so that other work of the machine affects both alike.
STATE_S = 5.0
MESSAGES = 500
OFF, WATCHED = STATES = ("not watched", "watched")
MIB = 1 << 20
UNITS = {"KiB": 1 << 10, "MiB": MIB, "GiB": 1 << 30, "B": 1}


def main_pid(service: str) -> int:
    """Return the process of the lab's container of `service`; ends the program if it does not run."""
    container = Lab(ROOT).compose().listed().get(service)
    if not container:
        sys.exit(f"The lab's {service} does not run: there is nothing to compare with.")
    inspect = ["docker", "inspect", "--format", "{{.State.Pid}}", container]
    return int(subprocess.run(inspect, check=True, capture_output=True, text=True).stdout)


def memory_mib() -> dict[str, float]:
    """Return how much memory each part of the lab has, as the engine counts it."""
    parts = {service: name for service, name in Lab(ROOT).compose().listed().items() if service not in APART}
    stats = ["docker", "stats", "--no-stream", "--format", "{{.MemUsage}}", *parts.values()]
    lines = subprocess.run(stats, check=True, capture_output=True, text=True).stdout.splitlines()
    return {service: _bytes(line.partition(" /")[0]) / MIB for service, line in zip(parts, lines, strict=True)}


def _bytes(text: str) -> float:
    unit = next(unit for unit in UNITS if text.endswith(unit))
    return float(text.removesuffix(unit)) * UNITS[unit]


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


def measure(given: argparse.Namespace, folder: Path) -> None:
    """Run once, watched by turns; write O of each message, the states and what the lab used."""
    repetitions = max(2, given.seconds * 1000 // given.interval_ms // MESSAGES)
    words = ["--fidelity", "corrected", "--intervals", str(given.interval_ms), "--messages", str(MESSAGES)]
    words += ["--repetitions", str(repetitions), "--json", "--allow-invalid"]
    before, stored = stores(given.scenario), len(list((ROOT / "results").glob("*/run.json")))
    run = subprocess.Popen([ROOT / "lab", "run", given.scenario, *words], stdout=subprocess.PIPE, text=True)
    while run.poll() is None and not sending(given.scenario, before):
        time.sleep(0.2)
    pids = {name: main_pid(name) for name in WATCHERS}
    # It takes a second or two, which belong to no state.
    memory = memory_mib()
    spent = {name: cpu_s(pid) for name, pid in pids.items()}
    states: list[dict[str, Any]] = []
    try:
        while run.poll() is None and sending(given.scenario, before):
            state = STATES[len(states) % len(STATES)]
            enter(state, pids)
            start_ns, end = time.perf_counter_ns(), time.monotonic() + STATE_S
            while time.monotonic() < end and run.poll() is None:
                time.sleep(0.2)
            states.append({"state": state, "start_ns": start_ns, "end_ns": time.perf_counter_ns()})
    finally:
        enter(WATCHED, pids)
    watched_s = sum((one["end_ns"] - one["start_ns"]) / 1e9 for one in states if one["state"] == WATCHED)
    cores = {name: (cpu_s(pid) - spent[name]) / watched_s for name, pid in pids.items()}
    document = json.loads(run.communicate()[0])["runs"][0]
    of_run = {name: document[name] for name in ("scenario", "run_id", "valid", "quiet")}
    write_rows(folder / "used.jsonl", [{**of_run, "cores": cores, "memory_mib": memory, "stored_runs": stored}])
    write_rows(folder / "states.jsonl", states)
    with (folder / "overheads.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, ("sent_ns", "overhead_us"), extrasaction="ignore", lineterminator="\n")
        table.writeheader()
        samples = read_csv(ROOT / "results" / document["run_id"] / "samples.csv")
        table.writerows(row for row in samples if row["overhead_us"])


def cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("--seconds", type=int, default=150)
    parser.add_argument("--interval-ms", type=int, default=10)
    parser.add_argument("--scenario", default="scenario1")
    given = parser.parse_args()
    with keeping("scrape", given.keep) as folder:
        measure(given, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
