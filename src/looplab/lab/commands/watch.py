"""`./lab watch`: the newest run at a glance in a terminal of 80 x 24 or more, also over ssh.

It asks the exporter once a second, on the port that .env gives it; what is not there yet is waited for.
"""

import contextlib
import os
import time
from pathlib import Path

from rich.bar import Bar
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from looplab.errors import EXIT_GOOD, EXIT_MACHINE
from looplab.experiments.registry import EXPERIMENTS
from looplab.lab.checkout import Lab
from looplab.lab.metrics_page import Labels, Page, exporter_url, fetch, parse
from looplab.spec.cell import Cell

EVERY_S = 1.0
MOST_CELLS = 6
HEADING_LINES = 5  # of both tables, the run, the parts
FEWEST_PLOT_LINES, MOST_PLOT_LINES = 6, 16
QUANTILES = ("0.5", "0.95", "0.99", "1")


class View:
    """The newest run of a page, the active one if there is one; `cell` is the table of its experiment."""

    def __init__(self, page: Page) -> None:
        active = {_run(labels): value == 1 for labels, value in page["loop_run_active"]}
        newest = max(page["loop_run_info"], key=lambda s: (active.get(_run(s[0]), False), s[0]["run_id"]), default=None)
        self.run = _run(newest[0]) if newest else ("", "")
        self.active = active.get(self.run, False)
        self._own = {name: [s for s in samples if _run(s[0]) == self.run] for name, samples in page.items()}
        tables = (cell for one in EXPERIMENTS.values() for cell in (one.cell, *one.tables.values()))
        self.cell = next(filter(self._has, tables), Cell)

    def _has(self, cell: type[Cell]) -> bool:
        return bool(self._own.get(f"{cell.family}_messages_sent_total"))

    def of(self, name: str) -> list[tuple[Labels, float]]:
        """Return the run's samples of a metric of its experiment."""
        return self._own.get(f"{self.cell.family}_{name}", [])

    def of_any_run(self, name: str) -> list[tuple[Labels, float]]:
        """Return the run's samples of a metric that every run has."""
        return self._own.get(name, [])

    def text(self, labels: Labels) -> str:
        """Return the cell of a sample in words."""
        return self.cell.keyed(*(key.kind(labels[key.name]) for key in self.cell.key_columns())).text

    @property
    def current(self) -> str:
        """The cell that is being measured, or was last, in words."""
        begun = [s for s in self.of("cell_current") if s[1]] or self.of("messages_sent_total")
        return self.text(begun[-1][0]) if begun else ""


def _run(labels: Labels) -> tuple[str, str]:
    return labels.get("scenario", ""), labels.get("fidelity", "")


def screen(page: Page, height: int) -> RenderableType:
    """Return what a terminal of that height shows of a page; the plot gets the lines that the tables leave."""
    view = View(page)
    if not view.run[0]:
        return Text("No run yet: start one in another terminal, e.g. ./lab run scenario1 --quick")
    sent = sum(value for _labels, value in view.of("messages_sent_total"))
    planned = sum(value for _labels, value in view.of_any_run("loop_run_messages_planned"))
    state = f"{'running' if view.active else 'ended'}, {sent:.0f} of {planned:.0f} messages"
    head = Text(f"{view.run[0]}, fidelity {view.run[1]}: {state}", "bold")
    cells, treatments = _cells(view), _treatments(view)
    processes = [f"{labels['part']} {count:.0f}" for labels, count in page["lab_processes"] if count]
    free = min(MOST_PLOT_LINES, height - cells.row_count - treatments.row_count - HEADING_LINES)
    figures = {end: value for end in view.cell.more_metrics for labels, value in view.of(end)}
    plot = [view.cell.picture(figures, free) or _shares(view, free)] if free >= FEWEST_PLOT_LINES else []
    return Group(head, cells, *plot, treatments, Text(f"parts: {', '.join(processes)}"))


def _cells(view: View) -> Table:
    """Return the last cells: counts, and the last metric's quantiles in ms."""
    metric = next((labels["metric"] for labels, _ in reversed(view.of("latency_quantile_seconds"))), "")
    outcomes = [name.replace("_", "\n") for name in view.cell.outcomes()]
    headings = ["sent", *outcomes, *(f"{metric} {q}" for q in ("p50", "p95", "p99", "max"))]
    table = Table("cell", *headings, box=None, pad_edge=False)
    counts = {(view.text(labels), labels["outcome"]): value for labels, value in view.of("messages_total")}
    quantiles = {
        (view.text(labels), labels["q"]): value
        for labels, value in view.of("latency_quantile_seconds")
        if labels["metric"] == metric
    }
    for labels, sent in view.of("messages_sent_total")[-MOST_CELLS:]:
        cell = view.text(labels)
        fates = [f"{counts.get((cell, name), 0):.0f}" for name in view.cell.outcomes()]
        times = [f"{quantiles[cell, q] * 1000:.2f}" if (cell, q) in quantiles else "-" for q in QUANTILES]
        mark = ">" if cell == view.current else " "
        table.add_row(_one_line(f"{mark} {cell}"), f"{sent:.0f}", *fates, *times)
    return table


def _shares(view: View, lines: int) -> Table:
    """Return, in so many lines, the share of the current cell's messages that have each latency within some times."""
    sent = next((n for labels, n in view.of("messages_sent_total") if view.text(labels) == view.current), 0.0)
    counts = {
        labels["metric"]: sent
        for labels, n in view.of("latency_seconds_count")
        if n and view.text(labels) == view.current
    }
    within: dict[str, dict[float, float]] = {metric: {} for metric in counts}
    for labels, value in view.of("latency_seconds_bucket"):
        if (metric := labels["metric"]) in counts and view.text(labels) == view.current:
            within[metric][float(labels["le"])] = value / counts[metric]
    rising = sorted({le for shares in within.values() for le, share in shares.items() if 0 < share < 1})
    # As many as fit, evenly spaced, with the last.
    step = -(-len(rising) // (lines - 1)) or 1
    table = Table("answered within", *counts, box=None, pad_edge=False, expand=True)
    for le in rising[::-step][::-1]:
        # A page leaves out the times at which a metric's share does not change.
        shares = [max((share for at, share in within[metric].items() if at <= le), default=0) for metric in counts]
        table.add_row(f"{le * 1000:.3g} ms", *(Bar(1, 0, share) for share in shares))
    return table


def _treatments(view: View) -> Table:
    table = Table("treatment", "wanted", "found", "", box=None, pad_edge=False)
    for labels, verified in view.of_any_run("loop_treatment_verified"):
        state = "ok" if verified else "WRONG" if labels["required"] == "true" else "no"
        table.add_row(*(_one_line(labels[name]) for name in ("what", "wanted", "found")), state)
    return table


def _one_line(text: str) -> Text:
    return Text(text, no_wrap=True, overflow="ellipsis")


def watch(root: Path) -> int:
    """Show the newest run until Ctrl-C; print one screen if the output is no terminal."""
    url = exporter_url(Lab(root).settings())
    # Exported by some shells, and wrong as soon as the window changes: the terminal itself is asked.
    for name in ("COLUMNS", "LINES"):
        os.environ.pop(name, None)
    console = Console()
    if not console.is_terminal:
        shown, code = _read(url, console.height)
        console.print(shown)
        return code
    with contextlib.suppress(KeyboardInterrupt), Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(_read(url, console.height)[0], refresh=True)
            time.sleep(EVERY_S)
    return EXIT_GOOD


def _read(url: str, height: int) -> tuple[RenderableType, int]:
    """Return the screen of the exporter's page, or why there is none, and the exit code."""
    try:
        page = fetch(f"{url}/metrics/live")
        # Between runs the newest stored one is shown.
        page = page if "loop_run_info{" in page else fetch(f"{url}/metrics")
        return screen(parse(page), height), EXIT_GOOD
    except OSError as error:
        place, why = url.removeprefix("http://"), getattr(error, "reason", error)
        remedy = "Start a run (`./lab run NAME`), or correct LAB_EXPORTER_PORT in .env."
        return Text(f"No exporter at {place} ({why}). {remedy}"), EXIT_MACHINE
