"""`./lab watch`: the run that goes on or went on last at a glance in a terminal of 80 x 24 or more, also over ssh.

It asks the exporter once a second, on the port that .env gives it; what is not there yet is waited for.
"""

import contextlib
import math
import time
from collections.abc import Mapping
from pathlib import Path

from rich.bar import Bar
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from looplab.errors import EXIT_GOOD, EXIT_MACHINE
from looplab.experiments.registry import EXPERIMENTS
from looplab.lab.checkout import Lab
from looplab.lab.metrics_page import Page, fetch, parse
from looplab.lab.settings import address_of
from looplab.spec.cell import Cell

EVERY_S = 1.0
MOST_CELLS = 6
HEADING_LINES = 5  # of both tables, the run, the parts
FEWEST_PLOT_LINES, MOST_PLOT_LINES = 6, 16
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}
LATENESS, LATENESS_HEADING = "send lateness", "lateness\np99"


class View:
    """The run of a page; `cell` is the table of its experiment."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.run, active = next(iter(page["lab_run_active"]), ({}, 0.0))
        self.active = active == 1
        known = EXPERIMENTS.get(self.run.get("experiment", ""))
        self.cell: type[Cell] = known.table(self.run["scenario"]) if known else Cell

    @property
    def current(self) -> str:
        """The cell that is being measured, or was last, in words."""
        return next((labels["cell"] for labels, current in self.page["lab_cell_current"] if current), "")


def screen(page: Page, height: int) -> RenderableType:
    """Return what a terminal of that height shows of a page; the plot gets the lines that the tables leave."""
    view = View(page)
    if not view.run:
        return Text("No run yet: start one in another terminal, e.g. ./lab run scenario1 --quick")
    sent = sum(value for _labels, value in page["lab_messages_sent_total"])
    planned = sum(value for _labels, value in page["lab_run_messages_planned"])
    state = f"{'running' if view.active else 'ended'}, {sent:.0f} of {planned:.0f} messages"
    head = Text(f"{view.run['scenario']}, fidelity {view.run['fidelity']}: {state}", "bold")
    cells = _cells(view)
    treatments = _treatments(page, height - cells.row_count - HEADING_LINES - FEWEST_PLOT_LINES)
    processes = [f"{labels['part']} {count:.0f}" for labels, count in page["lab_processes"] if count]
    free = min(MOST_PLOT_LINES, height - cells.row_count - treatments.row_count - HEADING_LINES)
    figures = {labels["figure"]: value for labels, value in page["lab_figure"] if labels["cell"] == view.current}
    plot = [view.cell.picture(figures, free) or _shares(view, free)] if free >= FEWEST_PLOT_LINES else []
    return Group(head, cells, *plot, treatments, Text(f"parts: {', '.join(processes)}"))


def _cells(view: View) -> Table:
    """Return the last cells: counts, the last metric's quantiles in ms, and how late the sender was, if it is known."""
    within = _within(view.page)
    metric = next((one for _cell, one in reversed(within) if one != LATENESS), "")
    outcomes = [name.replace("_", "\n") for name in view.cell.outcomes()]
    lateness = [LATENESS_HEADING] if any(one == LATENESS for _cell, one in within) else []
    headings = ["cell", "sent", *outcomes, *(f"{metric}\n{q}" for q in QUANTILES), *lateness]
    # One space between columns: all of them fit into 80 characters.
    table = Table(*headings, box=None, padding=(0, 1, 0, 0), pad_edge=False)
    counts = {(labels["cell"], labels["outcome"]): value for labels, value in view.page["lab_messages_total"]}
    for labels, sent in view.page["lab_messages_sent_total"][-MOST_CELLS:]:
        cell = labels["cell"]
        fates = [f"{counts.get((cell, name), 0):.0f}" for name in view.cell.outcomes()]
        times = [_quantile(within.get((cell, metric), {}), share) for share in QUANTILES.values()]
        times += [_quantile(within.get((cell, LATENESS), {}), QUANTILES["p99"]) for _ in lateness]
        mark = ">" if cell == view.current else " "
        table.add_row(_one_line(f"{mark} {cell}"), f"{sent:.0f}", *fates, *times)
    return table


def _within(page: Page) -> dict[tuple[str, str], dict[float, float]]:
    """Return, for each cell and metric, how many messages took at most each time in seconds."""
    counts: dict[tuple[str, str], dict[float, float]] = {}
    for labels, value in page["lab_latency_seconds_bucket"]:
        counts.setdefault((labels["cell"], labels["metric"]), {})[float(labels["le"])] = value
    return counts


def _quantile(within: Mapping[float, float], share: float) -> str:
    """Return the bound in ms within which that share of the answers came, at most 5 % above the quantile."""
    wanted = share * max(within.values(), default=0)
    bound = next((le for le, count in sorted(within.items()) if wanted and count >= wanted), math.inf)
    return f"{bound * 1000:.2f}" if bound < math.inf else "-"


def _shares(view: View, lines: int) -> Table:
    """Return, in so many lines, the share of the current cell's messages that have each latency within some times."""
    sent = {labels["cell"]: n for labels, n in view.page["lab_messages_sent_total"]}.get(view.current, 0.0)
    within = {
        metric: {le: count / sent for le, count in counts.items()}
        for (cell, metric), counts in _within(view.page).items()
        if cell == view.current and metric != LATENESS and max(counts.values()) and sent
    }
    rising = sorted({le for shares in within.values() for le, share in shares.items() if 0 < share < 1})
    # Show as many as fit, evenly spaced, with the last one.
    step = -(-len(rising) // (lines - 1)) or 1
    table = Table("answered within", *within, box=None, pad_edge=False, expand=True)
    for le in rising[::-step][::-1]:
        # Metrics may have different buckets.
        shares = [max((share for at, share in each.items() if at <= le), default=0) for each in within.values()]
        table.add_row(f"{le * 1000:.3g} ms", *(Bar(1, 0, share) for share in shares))
    return table


def _treatments(page: Page, lines: int) -> Table:
    """Return the treatments in so many lines; where they do not fit, those that are as wanted are left out first."""
    table = Table("treatment", "wanted", "found", "", box=None, pad_edge=False)
    shown = rows = page["lab_treatment_verified"]
    if len(rows) > lines:
        shown = sorted(rows, key=lambda row: (row[1], row[0]["required"] != "true"))[: max(1, lines - 1)]
    for labels, verified in shown:
        state = "ok" if verified else "WRONG" if labels["required"] == "true" else "no"
        table.add_row(*(_one_line(labels[name]) for name in ("what", "wanted", "found")), state)
    if len(shown) < len(rows):
        table.add_row(f"and {len(rows) - len(shown)} more")
    return table


def _one_line(text: str) -> Text:
    return Text(text, no_wrap=True, overflow="ellipsis")


def watch(root: Path) -> int:
    """Show the newest run until Ctrl-C; print one screen if the output is no terminal."""
    url = address_of(Lab(root).settings(), "EXPORTER")
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
        return screen(parse(fetch(f"{url}/metrics")), height), EXIT_GOOD
    except OSError as error:
        place, why = url.removeprefix("http://"), getattr(error, "reason", error)
        remedy = "Start a run (`./lab run NAME`), or correct LAB_EXPORTER_PORT in .env."
        return Text(f"No exporter at {place} ({why}). {remedy}"), EXIT_MACHINE
