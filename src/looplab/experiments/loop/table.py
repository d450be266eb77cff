"""What a terminal shows of a run: all of it (`table`), or a line for each cell of one or several runs (`summary`)."""

from collections.abc import Iterator, Mapping, Sequence
from math import floor, log10
from textwrap import fill
from typing import Any

from looplab.experiments.loop import LoopCell, thesis_tables
from looplab.experiments.loop.fitted import fitted
from looplab.run import quiet
from looplab.run.accounting import mark
from looplab.run.table import WIDTH, aligned, milliseconds, run_text, unsure, verdict
from looplab.spec.brokers import DEFAULT
from looplab.system.machine_facts import own_file

_CPU = "_cpu_s"
_STRAY = ("malformed", "foreign")
_EXTRAS = (("duplicates", "dup."), ("out_of_order", "out of order"), ("disconnects", "disconn."))
_HEAD = f"{'interval':>9} {'QoS':>3} {'sent':>6} {'answ.':>6} {'lost':>5} {'late':>4} {'err.':>4}"
_STATISTICS = ("min", "avg", "p50", "p95", "p99", "max")
_LATENCY_HEAD = f"{'':>14}" + "".join(f" {name:>9}" for name in _STATISTICS)
# Beside a figure that depends on a fitted constant.
FITTED = "*"
FITTED_NOTE = f"{FITTED} depends on constants that were fitted to the thesis: ./lab show names them."
FIDELITIES = {"printed": "as the listings", "thesis": "published settings", "corrected": "corrected"}
# What a summary shows of a cell, and its words for the statistics.
_SHOWN = (("T", "p50"), ("O", "p50"), ("O", "p95"), ("O", "max"), ("O", "avg"))
_WORDS = {"p50": "half", "p95": "95", "max": "slowest", "avg": "mean"}
_SUMMARY_NOTE = "half, 95: within these times half, 95 of 100 messages were answered; thesis: its mean of O"


def table(run: dict[str, Any], own: type[LoopCell] = LoopCell) -> str:
    """Return the table of one run (a run.json document), latencies in milliseconds, no line feed at its end."""
    cells = [own(document) for document in run["cells"]]
    lines = ["latencies in ms", ""]
    for cell in cells:
        lines += [*cell_lines(cell, run.get("parameters", {})), *_stalls(cell.document), ""]
    lines += unsure([line.split() for line in lines])
    lines += [fill(text, WIDTH, subsequent_indent="  ") for text in (*_remarks(run, cells), *own.remarks(run))]
    return run_text(run, lines)


def cell_lines(cell: LoopCell, parameters: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of one cell: its counts, latencies, what O is made of, its load."""
    yield _HEAD
    yield (
        f"{cell.interval_ms:>6g} ms {cell.qos:>3} {cell.sent:>6} {cell.answered:>6} {cell.lost:>5} {cell.late:>4} "
        f"{cell.robot_errors:>4}"
    )
    if extras := [f"{count} {label}" for name, label in _EXTRAS if (count := getattr(cell, name))]:
        yield "   " + ", ".join(extras)
    if cell.causes:
        yield f"   lost by: {cell.causes}"
    yield _LATENCY_HEAD
    same = cell.ledger.get("O", {"n": 0})
    for one in cell.latencies():
        # Only printed clients stamp their messages.
        if one.heading and one.path[0] in cell.document and (one.name != "client_O" or cell.client_O.get("n")):
            figures, star = one.of(cell), _star(parameters, one.name)
            if one.name == "transport_O" and same["n"]:
                # Show it for the same messages as O above it: the two are compared.
                figures = cell.ledger["transport_O"]
                if same["n"] < cell.O["n"]:
                    yield _latencies(f"O of {same['n']}{star}", same)
            yield _latencies(one.heading + star, figures)
    yield from _ledger(cell)
    if cell.free_R:
        yield _latencies("R free", cell.free_R)
    for figure in cell.figures():
        # The line `lost by` holds a share that is derived.
        if figure.heading and not figure.derived and (value := figure.of(cell)) is not None:
            share, number = f"{value:.1%} of {cell.sent} messages", f"{value:.{figure.digits}f} {figure.unit}".rstrip()
            yield f"{figure.heading:>15} {share if figure.share else number}"
    yield from _load(cell.load)


def _star(parameters: Mapping[str, Any], name: str) -> str:
    return FITTED if any(name in constant.figures for constant in fitted(parameters)) else ""


def _latencies(label: str, figures: Mapping[str, Any]) -> str:
    """Return one line; a figure that is null although there are messages is infinite."""
    unknown = f"{'inf':>9}" if figures.get("n") else milliseconds(None)
    values = (unknown if figures[name] is None else milliseconds(figures[name]) for name in _STATISTICS)
    # A mark takes the place of the gap behind it.
    texts = (text + (mark(name, figures.get("n")) or " ") for name, text in zip(_STATISTICS, values, strict=True))
    return f"{label:>14} {''.join(texts)}".rstrip()


def _ledger(cell: LoopCell) -> Iterator[str]:
    """Yield what O is made of: the averages of its parts, and their sum."""
    parts = cell.known_parts
    if not parts:
        return
    avg = {name: milliseconds(part["avg"]).strip() for name, part in parts.items()}
    yield (
        f"{'O is made of':>14} {avg['send_path']} send path + {avg['wake_up']} wake-up + {avg['network']} network and "
        "broker"
    )
    yield f"{'':>14} + {avg['bridge_send_path']} send path + {avg['bridge_wake_up']} wake-up of the bridge"
    count, sum_us = parts["network"]["n"], sum(part["avg"] for part in parts.values())
    share = f"{count} of {cell.O['n']} answers ({count / max(1, cell.O['n']):.0%})"
    yield f"{'':>14} = {milliseconds(sum_us).strip()}, mean O of {share}"
    if cell.negative_remainders:
        yield f"{'':>14} {cell.negative_remainders} answers have parts longer than O, and are no part of it"


def _load(load: Mapping[str, Any]) -> Iterator[str]:
    """Yield how hard the load was: CPU seconds a second, messages a second at the broker (the loop's own included)."""
    names = [key for key in load if key.endswith(_CPU) and load["seconds"]]
    figures = [f"{name.removesuffix(_CPU)} {load[name] / load['seconds']:.2f} CPU s/s" for name in names]
    if "broker_publish_per_s" in load:
        figures.append(f"{load['broker_publish_per_s']:.0f} messages/s at the broker")
    if figures:
        yield f"{'load':>14} {', '.join(figures)}"


def _stalls(cell: Mapping[str, Any]) -> Iterator[str]:
    """Yield run-queue waits, the noise floor, and why the sender or the answers were late."""
    for what, figures in quiet.facts(cell):
        yield from fill(f"{what:>14} {figures}", WIDTH, subsequent_indent=" " * 15).splitlines()
    for why in quiet.why_slow(cell):
        yield from fill(why, WIDTH, initial_indent="  ", subsequent_indent="  ").splitlines()


def _remarks(run: dict[str, Any], cells: Sequence[LoopCell]) -> Iterator[str]:
    """Yield what the figures alone do not show, a sentence each."""
    parameters = run.get("parameters", {})
    yield from notices(run)
    if constants := fitted(parameters):
        yield f"{FITTED} fitted: {' '.join(map(str, constants))}"
    if waited := sum(cell.waited for cell in cells):
        known = sum(cell.service_R["n"] for cell in cells)
        yield f"R free: R of the requests that did not queue at the robot; {waited} of {known + waited} queued."


def notices(run: dict[str, Any]) -> Iterator[str]:
    """Yield what happened that a reader of the run's figures must know, a sentence each."""
    broker, left_out = (run.get("parameters", {}).get(name) for name in ("broker", "qos_left_out"))
    if broker not in (None, DEFAULT):
        yield f"Broker: {broker} {run['environment'].get('versions', {}).get('broker', '')}".rstrip() + "."
    if left_out:
        yield f"{broker} knows no QoS {', '.join(map(str, left_out))}: those cells are left out."
    yield from (f"Not the published set-up: {one} changes its Compose files." for one in own_file(run))
    yield from (f"Ignored: {run[kind]} {kind} messages on the lab's topics." for kind in _STRAY if run.get(kind))


def summary(runs: Sequence[dict[str, Any]], width: int = WIDTH) -> str:
    """Return what runs of one fidelity end with: a line for each cell, then each run's doubts and its verdict.

    Text wraps at `width`; latencies are in ms, and no line feed ends it.
    """
    titles = [title for run in runs if len(runs) == 1 and (title := run.get("parameters", {}).get("title"))]
    parameters = runs[0].get("parameters", {})
    image = f" in {parameters['own_image']}" if parameters.get("own_image") else ""
    own = (parameters.get(name) for name in ("own_client", "own_bridge"))
    clients = [f"with {one}{image}" for one in own if one] or ["the lab's client"] * (runs[0]["fidelity"] == "thesis")
    how = ", ".join([FIDELITIES[runs[0]["fidelity"]], *clients])
    lines = [*titles, f"{how}, latencies in ms", "", *_cells(runs), _SUMMARY_NOTE]
    if any(fitted(run.get("parameters", {})) for run in runs):
        lines.append(FITTED_NOTE)
    for run in runs:
        first, *more = verdict(run, brief=True, width=width - 2)
        doubted = (f"! {doubt}" for doubt in doubts(run))
        lines += ["", f"{run['scenario']}: {first}", *more, *doubted, f"Kept in results/{run['run_id']}"]
    indented = (f"  {line}".rstrip() for line in lines)
    return "\n".join(fill(line, width, subsequent_indent=" " * 4) if len(line) > width else line for line in indented)


def _cells(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the table of a summary; a line begins with its run's scenario where there are several runs."""
    several = len(runs) > 1
    heads = [f"{name}{_star(runs[0].get('parameters', {}), name)} {_WORDS[statistic]}" for name, statistic in _SHOWN]
    lines = [["scenario"] * several + ["interval", "QoS", "sent", "lost", *heads, "thesis"]]
    for run in runs:
        for cell in map(LoopCell, run["cells"]):
            printed = thesis_tables.row(run["scenario"], cell.interval_ms, cell.qos)
            counts = (f"{cell.interval_ms:g} ms", str(cell.qos), str(cell.sent), str(cell.lost))
            latencies = (_text(getattr(cell, name), statistic) for name, statistic in _SHOWN)
            lines.append([run["scenario"]] * several + [*counts, *latencies, significant(printed.figure("O", "avg"))])
    return [*aligned(lines, left=int(several), gap=" "), *unsure(lines)]


def _text(figures: Mapping[str, Any], statistic: str) -> str:
    """Return a latency; one that is null although there are messages is that of a lost one."""
    value = figures.get(statistic)
    return "lost" if value is None and figures.get("n") else significant(value) + mark(statistic, figures.get("n"))


def doubts(run: dict[str, Any]) -> Iterator[str]:
    """Yield, a sentence each, what makes the figures doubtful though the run may be VALID; the report has the same."""
    cells = [LoopCell(document) for document in run["cells"]]
    yield from (f"{cell}: {cell.lost} lost{f': {cell.causes}' if cell.causes else ''}." for cell in cells if cell.lost)
    yield from (f"{cell}: {cell.late} answers came late." for cell in cells if cell.late)
    # Name each cause once for all cells: `./lab show` has them by cell.
    yield from dict.fromkeys(why for cell in cells for why in quiet.why_slow(cell.document))
    yield from notices(run)


def significant(value_us: float | None) -> str:
    """Return a duration in ms with three significant digits, a dash where there is none."""
    if value_us is None:
        return "-"
    value_ms = value_us / 1000
    decimals = 2 - floor(log10(abs(value_ms))) if value_ms else 2
    return f"{value_ms:.{min(max(decimals, 0), 3)}f}"
