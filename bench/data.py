#!/usr/bin/env python3
"""Print the figures of the benchmarks by theme, from the raw data in bench/data.

python3 bench/data.py [THEME [FOLDER]]
python3 bench/data.py >bench/figures.tsv     write the table of all figures again
"""

import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median, stdev
from tempfile import TemporaryDirectory

from kept import middle, overheads_ms, quantile, read_csv, read_rows, runs, unpack, us

# A line of the table: the figure, and what was measured.
Lines = Iterator[tuple[str, str]]
PARTS = ("send_path_us", "wake_up_us", "bridge_wake_up_us", "bridge_send_path_us", "network_us")
# A stall of a bystander, in us.
LONG_US = 25_000


def latency(folder: Path) -> Lines:
    """Yield O and lateness of bench/latency.py."""
    rounds = read_rows(folder / "rounds.jsonl")
    for layer, name, limit in (("transport", "at the sockets", 1.2), ("application", "in the programs", 1.5)):
        ratios = [quantile(one[f"{layer}_us"], 0.5) / quantile(one["floor_us"], 0.5) for one in rounds]
        missed = "missed: " if median(ratios) > limit else ""
        yield (
            f"O p50 {name} over a C libmosquitto loop (limit: {limit} x)",
            f"{missed}{median(ratios):.2f} x ({min(ratios):.2f} to {max(ratios):.2f})",
        )
    for name, what, base in (
        ("bridge", "the lab's bridge in place of C's", "floor"),
        ("controller", "the lab's controller in place of C's", "floor"),
        ("application", "both", "floor"),
        ("probes", "the probes beside both", "application"),
    ):
        more = [quantile(one[f"{name}_us"], 0.5) - quantile(one[f"{base}_us"], 0.5) for one in rounds]
        yield f"what {what} adds to O p50", f"{median(more):.0f} ({min(more):.0f} to {max(more):.0f}) µs"
    late = [quantile(one["lateness_us"], 0.99) / 1000 for one in rounds]
    missed = "missed: " if median(late) > 0.5 else ""
    figure = f"{missed}{median(late):.2f} ms ({min(late):.2f} to {max(late):.2f})"
    yield "send lateness p99, no stress (limit: 0.5 ms)", figure


def instrument(folder: Path) -> Lines:
    """Yield the figures of bench/instrument.py."""
    seen: dict[str, dict[tuple[str, int], int]] = {"out": {}, "in": {}}
    for row in read_csv(folder / "packets.csv"):
        # A packet that is sent again counts once, at its first time.
        seen[row["way"]].setdefault((row["run"], int(row["sequence"])), int(row["at_ns"]))
    answered = found = 0
    kernel, lab = [], []
    tokens = set()
    for run, samples in runs(folder):
        token = run["token"]
        tokens.add(token)
        transport = {row["sequence"]: row for row in read_csv(folder / run["run_id"] / "transport.csv")}
        for row in samples:
            key, parts = (token, int(row["sequence"])), transport.get(row["sequence"], {})
            answered += row["outcome"] == "answered"
            if row["outcome"] != "answered" or key not in seen["out"] or key not in seen["in"]:
                continue
            found += 1
            wire_us = (seen["in"][key] - seen["out"][key]) / 1000
            lab.append(float(row["total_us"]) - wire_us)
            known = [parts.get(name) or "" for name in PARTS]
            if "" not in known:
                kernel.append(float(row["total_us"]) - float(known[0]) - float(known[1]) - wire_us)
    rounds = read_rows(folder / "floor.jsonl")
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


def legs(folder: Path) -> Lines:
    """Yield mean O by fidelity and QoS: the mean of the runs' means, and their range; and of how many its parts are."""
    means: dict[tuple[str, str], list[float]] = {}
    known: dict[int, list[float]] = {}
    for run, samples in runs(folder):
        for qos in "012":
            means.setdefault((run["fidelity"], qos), []).append(fmean(overheads_ms(samples, qos)))
        for cell in run["cells"] if run["fidelity"] == "thesis" else ():
            known.setdefault(cell["qos"], []).append(100 * cell["ledger_us"]["O"]["n"] / cell["answered"])
    for fidelity in ("thesis", "printed"):
        own = [means[fidelity, qos] for qos in "012"]
        each = "; ".join(f"{fmean(one):.2f} ({min(one):.2f} to {max(one):.2f})" for one in own)
        yield f"mean O at QoS 0; 1; 2, {fidelity}", f"{each} ms"
    yield (
        "answers with all parts of O known, QoS 0; 1; 2, thesis",
        "; ".join(f"{fmean(known[qos]):.0f}" for qos in (0, 1, 2)) + " %",
    )


# Each step from the printed set-up, by what its runs were given.
STEPS = {
    ("spin", "2.7", "repetition", "port"): "printed",
    ("spin", "2.7", "run", "port"): "printed, one process a run",
    ("select", "2.7", "repetition", "port"): "receiver sleeps",
    ("select", "3", "repetition", "port"): "Python 3",
    ("select", "3", "run", "port"): "one process a run",
    ("select", "3", "run", "direct"): "direct path",
}


def steps(folder: Path) -> Lines:
    """Yield mean O as the printed clients stamp it, and what was lost, by scenario and step, from the quiet runs."""
    for (scenario, qos, step), figures in _by_step(folder):
        yield f"{scenario}, QoS {qos}, {step}", figures


def life(folder: Path) -> Lines:
    """Yield the same of a process for each repetition and of one a run, a scenario a line."""
    by_scenario: dict[str, list[str]] = {}
    for (scenario, _qos, _step), figures in _by_step(folder):
        by_scenario.setdefault(scenario, []).append(figures)
    yield from ((scenario, " | ".join(figures)) for scenario, figures in by_scenario.items())


def _by_step(folder: Path) -> Iterator[tuple[tuple[str, int, str], str]]:
    seen: dict[tuple[str, int, str], list[tuple[float, int, int]]] = {}
    for run, _samples in runs(folder):
        set_up = tuple(run["parameters"][name] for name in ("receiver", "python", "life", "broker_path"))
        [cell] = run["cells"]
        one = cell["client_O_us"]["avg"] / 1000, cell["lost"] + cell["late"], cell["sent"]
        if run["quiet"]:
            seen.setdefault((run["scenario"], cell["qos"], STEPS[set_up]), []).append(one)
    for key in sorted(seen, key=lambda key: (key[0], [*STEPS.values()].index(key[2]))):
        means, lost, sent = zip(*seen[key], strict=True)
        yield key, f"{middle(means)} | {sum(lost)} of {sum(sent)}"


def proxy(folder: Path) -> Lines:
    """Yield mean O, the waits of the engine's proxy and the longest, by path, of bench/proxy.py."""
    rows = read_rows(folder / "runs.jsonl")
    for path in ("port", "direct"):
        mine = [row for row in rows if row["path"] == path]
        waits = [[sum(row["waits_ms"]) for row in mine], [max(row["waits_ms"], default=0) for row in mine]]
        told = [middle(one, 0) if any(one) else "none" for one in waits]
        yield path, " | ".join([middle([fmean(row["O_ms"]) for row in mine], 1), *told])


def claims(folder: Path) -> Lines:
    """Yield O and losses of each scenario of a study at QoS 0 from its quiet runs; then what stress does in them."""
    seen: dict[str, list[tuple[float, float, int, int, float]]] = {}
    for run, samples in runs(folder):
        rows = [row for row in samples if row["qos"] == "0"]
        own = overheads_ms(rows)
        late_ms = quantile([(int(row["sent_ns"]) - int(row["due_ns"])) / 1e6 for row in rows], 0.99)
        if run["quiet"]:
            one = fmean(own), quantile(own, 0.95), len(rows) - len(own), len(rows), late_ms
            seen.setdefault(run["scenario"], []).append(one)
    for scenario, of_runs in sorted(seen.items()):
        means, tails, lost, sent, _late = zip(*of_runs, strict=True)
        yield scenario, f"{middle(means)} | {middle(tails)} | {sum(lost)} of {sum(sent)}"
    yield "send lateness p99, scenario 2", f"{middle([one[-1] for one in seen['scenario2']])} ms"
    deviations = [stdev(one[0] for one in seen[f"scenario{number}"]) for number in (2, 1)]
    yield "SD of mean O from run to run: scenario 2; 1", "; ".join(f"{one:.2f}" for one in deviations) + " ms"


def priority(folder: Path) -> Lines:
    """Yield p99 of O in scenario 5 by whether its priority was applied."""
    tails: dict[bool, list[float]] = {False: [], True: []}
    for run, samples in runs(folder):
        tails[run["parameters"]["apply_priority"]].append(quantile(overheads_ms(samples), 0.99))
    each = "; ".join(middle(tails[applied]) for applied in (False, True))
    yield "p99 of O, scenario 5, priority permitted; applied", f"{each} ms"


def softirq(folder: Path) -> Lines:
    """Yield the way of a datagram by the sender's policy, idle and beside busy processes, of bench/softirq.py."""
    cases = read_rows(folder / "cases.jsonl")
    for sender in sorted({case["sender"] for case in cases}):
        mine = sorted((case for case in cases if case["sender"] == sender), key=lambda case: case["busy"])
        ways = ([quantile(case["way_ns"], place) / 1000 for place in (0.5, 0.99, 1)] for case in mine)
        yield sender, " | ".join(" / ".join(f"{value:.0f}" for value in way) for way in ways)
    loads = sorted({case["busy"] for case in cases})
    by_load = ([case for case in cases if case["busy"] == load] for load in loads)
    yield (
        "delivered within the sender's call",
        " | ".join(
            f"{sum(case['delivered_by']['sender'] for case in mine)} of {sum(len(case['way_ns']) for case in mine)}"
            for mine in by_load
        ),
    )


def bystander(folder: Path) -> Lines:
    """Yield what the whole lab does to a bystander, by load, of bench/bystander.py."""
    loads = {"stress-all": "under stress", "stress-1": "the same on one processor", "flood-all": "beside the flood"}
    for name, what in ((name, what) for name, what in loads.items() if (folder / f"{name}.jsonl").exists()):
        samples = read_rows(folder / f"{name}.jsonl")
        ends = [[one["late_us"] for one in samples if one["arm"] == arm] for arm in ("+ all", "load alone")]
        lab_ms, alone_ms = (median(quantile(late, 0.95) for late in end) / 1000 for end in ends)
        stalls = "; ".join(f"{sum(max(late) > LONG_US for late in end)} of {len(end)}" for end in ends)
        missed = "missed: " if lab_ms > 1.2 * alone_ms else ""
        yield what, f"{missed}{lab_ms / alone_ms:.2f} x ({lab_ms:.2f} and {alone_ms:.2f} ms) | {stalls}"


def tls(folder: Path) -> Lines:
    """Yield O p50 with TLS over without."""
    halves: dict[bool, list[float]] = {False: [], True: []}
    for run, samples in runs(folder):
        halves[run["parameters"]["broker_tls"]].append(quantile(overheads_ms(samples), 0.5))
    ratios = [tls / plain for plain, tls in zip(halves[False], halves[True], strict=True)]
    more_us = 1000 * (median(halves[True]) - median(halves[False]))
    yield "O p50 with TLS over without", f"{middle(ratios)} x, {more_us:+.0f} µs"


# The messages of one turn of bench/scrape.py: (when it was sent in ns, O in ms).
Turn = list[tuple[int, float]]
SETTLE_NS, DRAWS = 1_000_000_000, 2000


def scrape(folder: Path) -> Lines:
    """Yield quantiles of O while observed over those while not, with their 95 % interval, of bench/scrape.py."""
    [used] = read_rows(folder / "used.jsonl")
    rows = [(int(row["sent_ns"]), float(row["overhead_us"]) / 1000) for row in read_csv(folder / "overheads.csv")]
    turns: dict[str, list[Turn]] = {"watched": [], "not watched": []}
    for one in read_rows(folder / "states.jsonl"):
        turn = [(at, o) for at, o in rows if one["start_ns"] + SETTLE_NS <= at < one["end_ns"]]
        if len(turn) > 100:
            turns[one["state"]].append(turn)
    for name, at in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
        change = ratio(turns, lambda parts, at=at: quantile([o for part in parts for _, o in part], at))  # type: ignore[misc]
        yield f"{used['scenario']}: O {name} while observed over while not", change
    memory, stored = sum(used["memory_mib"].values()), used["stored_runs"]
    yield f"{used['scenario']}: memory without Grafana, {stored} stored runs (limit: 250 MiB)", f"{memory:.0f} MiB"


def ratio(turns: Mapping[str, list[Turn]], figure: Callable[[Sequence[Turn]], float]) -> str:
    """Return the ratio of a figure, drawing whole turns for its interval: neighbours are not independent."""
    draw = random.Random(1)
    watched, off = turns["watched"], turns["not watched"]
    drawn = sorted(
        figure(draw.choices(watched, k=len(watched))) / figure(draw.choices(off, k=len(off))) for _ in range(DRAWS)
    )
    low, high = drawn[int(0.025 * DRAWS)], drawn[int(0.975 * DRAWS)]
    return f"{figure(watched) / figure(off):.2f} x ({low:.2f} to {high:.2f})"


def delay(folder: Path) -> Lines:
    """Yield L over the delay that was made, by QoS, of a run of qos-delay."""
    [(run, _samples)] = runs(folder)
    for qos in (0, 1, 2):
        mine = sorted((one["delay_pb_ms"], one["L_over_delay"]) for one in run["cells"] if one["qos"] == qos)
        yield f"QoS {qos}", " | ".join(f"{value:.2f}" for _delay, value in mine)


def asip(folder: Path) -> Lines:
    """Yield mean latencies by language, what the wire takes of them, and the highest waves that were copied."""
    figures: dict[str, list[str]] = {}
    for run, samples in runs(folder):
        for cell in sorted(run["cells"], key=lambda cell: ("serial", "tcp", "mqtt").index(cell["transport"])):
            language = cell["language"]
            if "tracked_hz" in cell:
                figures.setdefault(f"highest wave copied, Hz, {language}", []).append(f"{cell['tracked_hz']:.0f}")
                continue
            mine = (row for row in samples if (row["language"], row["transport"]) == (language, cell["transport"]))
            own = [float(row["latency_us"]) / 1000 for row in mine if row["latency_us"]]
            what = f"mean latency, ms (the wire: {cell['wire_us'] / 1000:.2f}), {language}"
            figures.setdefault(what, []).append(f"{fmean(own):.2f}")
    for what, each in sorted(figures.items()):
        yield what, " | ".join(each)


def standing(folder: Path) -> Lines:
    """Yield at which intervals the robot stood, and O of balance over that of scenario 1 in pairs of runs."""
    pairs: dict[str, list[float]] = {}
    stood, fell = [], []
    for run, samples in runs(folder):
        if len(run["cells"]) == 1:
            pairs.setdefault(run["scenario"], []).append(quantile(overheads_ms(samples), 0.5))
            continue
        for cell in run["cells"]:
            ends_s = (cell["sent"] - 2) * cell["interval_ms"] / 1000
            (stood if cell["upright_s"] >= ends_s else fell).append((cell["interval_ms"], cell["upright_s"]))
    yield "it stands at, ms, for", "; ".join(f"{at}: {s:.1f} s" for at, s in sorted(stood))
    yield "it falls at, ms, after", "; ".join(f"{at}: {s:.1f} s" for at, s in sorted(fell))
    ratios = [one / other for one, other in zip(pairs["balance"], pairs["scenario1"], strict=True)]
    yield f"O p50 of balance over scenario 1, {len(ratios)} pairs (limit: 1.05 x)", f"{middle(ratios)} x"


THEMES: dict[str, Callable[[Path], Lines]] = {
    one.__name__: one
    for one in (latency, instrument, legs, steps, life, proxy, claims, priority, softirq, bystander, tls, scrape,
                delay, asip, standing)
}  # fmt: skip
THEMES["claims-printed"] = claims


def main(words: Sequence[str]) -> int:
    with TemporaryDirectory() as name:
        if len(words) < 2:
            unpack(Path(name))
        print("theme\tfigure\tmeasured")
        for theme in words[:1] or [theme for theme in THEMES if Path(name, theme).is_dir()]:
            for figure, measured in THEMES[theme](Path(words[1]) if len(words) > 1 else Path(name, theme)):
                print(f"{theme}\t{figure}\t{measured}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
