#!/usr/bin/env python3
"""Analyse the raw data in bench/data again and print their figures, as bench/README.md has them.

python3 bench/data.py
"""

import csv
import json
import lzma
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median, quantiles
from typing import Any

DATA = Path(__file__).with_name("data")
PARTS = ("send_path_us", "wake_up_us", "bridge_wake_up_us", "bridge_send_path_us", "network_us")
# Which stamp of a packet counts: (run, sequence) -> ns.
Stamps = Mapping[tuple[str, int], int]


def table(path: Path) -> list[dict[str, str]]:
    with lzma.open(path, "rt", newline="") as file:
        return list(csv.DictReader(file))


def document(path: Path) -> Any:
    with lzma.open(path, "rt") as file:
        return json.load(file)


def us(values: Sequence[float]) -> str:
    """Return the median, and where the middle 90 % of values lie."""
    cuts = quantiles(values, n=20)
    return f"{median(values):.0f} µs ({cuts[0]:.0f} to {cuts[-1]:.0f})"


def instrument(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the figures of bench/instrument.py, each with its name."""
    seen: dict[str, dict[tuple[str, int], int]] = {"out": {}, "in": {}}
    for row in table(folder / "packets.csv.xz"):
        # A packet that is sent again counts once, at its first time.
        seen[row["way"]].setdefault((row["run"], int(row["sequence"])), int(row["at_ns"]))
    answered = found = 0
    kernel, lab, off = [], [], []
    tokens = set()
    for path in sorted(folder.glob("*/run.json.xz")):
        token = document(path)["token"]
        tokens.add(token)
        transport = {row["sequence"]: row for row in table(path.with_name("transport.csv.xz"))}
        for row in table(path.with_name("samples.csv.xz")):
            key, parts = (token, int(row["sequence"])), transport.get(row["sequence"], {})
            answered += row["outcome"] == "answered"
            if row["outcome"] != "answered" or key not in seen["out"] or key not in seen["in"]:
                continue
            found += 1
            wire_us = (seen["in"][key] - seen["out"][key]) / 1000
            lab.append(float(row["total_us"]) - wire_us)
            known = [parts.get(name) or "" for name in PARTS]
            if "" not in known:
                off.append(sum(map(float, known)) - float(row["overhead_us"]))
                kernel.append(float(row["total_us"]) - float(known[0]) - float(known[1]) - wire_us)
    rounds = document(folder / "floor.json.xz")
    own = [key for key in seen["in"] if key[0] not in tokens and key[0].startswith("floor") and key in seen["out"]]
    floor = [(seen["in"][key] - seen["out"][key]) / 1000 for key in own]
    yield "answers that the packets show, of those that the lab counts", f"{found} of {answered}"
    yield "the same, of the C loop", f"{len(own)} of {sum(one['n'] for one in rounds)}"
    yield "interface to interface by the kernel's stamps less by the packets", us(kernel)
    yield "T of the lab less the time between its packets", us(lab)
    yield (
        "T p50 of the C loop less that of its packets",
        f"{median(one['T_us']['p50'] for one in rounds) - median(floor):.0f} µs",
    )
    yield "parts of O less O: the largest", f"{max(map(abs, off)):.3f} µs of {len(off)} messages"


def legs(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield mean O by fidelity and QoS: the mean of the runs' means, and their range."""
    means: dict[tuple[str, str], list[float]] = {}
    for path in sorted(folder.glob("*/run.json.xz")):
        fidelity = document(path)["fidelity"]
        by_qos: dict[str, list[float]] = {}
        for row in table(path.with_name("samples.csv.xz")):
            if row["outcome"] == "answered":
                by_qos.setdefault(row["qos"], []).append(float(row["overhead_us"]) / 1000)
        for qos, values in by_qos.items():
            means.setdefault((fidelity, qos), []).append(fmean(values))
    for fidelity in ("thesis", "printed"):
        own = [means[fidelity, qos] for qos in "012"]
        each = "; ".join(f"{fmean(one):.2f} ({min(one):.2f} to {max(one):.2f})" for one in own)
        yield f"mean O at QoS 0; 1; 2, {fidelity}", f"{each} ms"


def middle(values: Sequence[float]) -> str:
    """Return the median of the runs' values and their range."""
    return f"{median(values):.2f} ({min(values):.2f}–{max(values):.2f})"


def loads(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield O and losses of each scenario of a study at QoS 0, from its quiet runs."""
    seen: dict[str, list[tuple[float, float, int, int]]] = {}
    for path in sorted(folder.glob("*/run.json.xz")):
        run = document(path)
        rows = [row for row in table(path.with_name("samples.csv.xz")) if row["qos"] == "0"]
        own = [float(row["overhead_us"]) / 1000 for row in rows if row["outcome"] == "answered"]
        if run["quiet"]:
            one = fmean(own), quantiles(own, n=20)[-1], len(rows) - len(own), len(rows)
            seen.setdefault(run["scenario"], []).append(one)
    for scenario, runs in sorted(seen.items()):
        means, tails, lost, sent = zip(*runs, strict=True)
        yield scenario, f"{middle(means)} | {middle(tails)} | {sum(lost)} of {sum(sent)}"


# Each step from the printed set-up, by what its runs were given.
STEPS = {
    ("spin", "2.7", "repetition", "port"): "printed",
    ("spin", "2.7", "run", "port"): "printed, one process a run",
    ("select", "2.7", "repetition", "port"): "receiver sleeps",
    ("select", "3", "repetition", "port"): "Python 3",
    ("select", "3", "run", "port"): "one process a run",
    ("select", "3", "run", "direct"): "direct path",
}


def steps(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield mean O as the printed clients stamp it, and what was lost, by step and scenario."""
    seen: dict[tuple[str, str, int], list[tuple[float, int, int]]] = {}
    for path in sorted(folder.glob("*/run.json.xz")):
        run = document(path)
        set_up = tuple(run["parameters"][name] for name in ("receiver", "python", "life", "broker_path"))
        [cell] = run["cells"]
        if not run["quiet"]:
            continue
        one = cell["client_O_us"]["avg"] / 1000, cell["lost"] + cell["late"], cell["sent"]
        seen.setdefault((run["scenario"], STEPS[set_up], cell["qos"]), []).append(one)
    for scenario, step, qos in sorted(seen, key=lambda key: (key[0], [*STEPS.values()].index(key[1]))):
        means, lost, sent = zip(*seen[scenario, step, qos], strict=True)
        yield f"{scenario}, QoS {qos}, {step}", f"{middle(means)} | {sum(lost)} of {sum(sent)}"


def balance(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the cost of standing and the age of the command in force, by scenario and QoS, from the quiet runs."""
    seen: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for path in sorted(folder.glob("*/run.json.xz")):
        run = document(path)
        for cell in run["cells"] if run["quiet"] else ():
            seen.setdefault((run["scenario"], cell["qos"]), []).append((cell["cost"], cell["age_ms"]))
    for (scenario, qos), runs in sorted(seen.items()):
        costs, ages = zip(*runs, strict=True)
        range_of = f"{median(costs):.4f} ({min(costs):.4f}–{max(costs):.4f})"
        yield f"{scenario}, QoS {qos}", f"{range_of} | {median(ages):.1f}"


def main() -> int:
    analyses = (
        (instrument, "instrument"),
        (legs, "legs"),
        (loads, "claims"),
        (steps, "steps"),
        (steps, "life"),
        (balance, "balance"),
    )
    for name, figure in (line for analyse, folder in analyses for line in analyse(DATA / folder)):
        print(f"| {name} | {figure} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
