"""`./lab watch`: the run at a glance in a terminal of 80 x 24 or more, also over ssh.

Asks the exporter once a second, on the port that .env gives it; what is not there yet is waited for.
"""

import contextlib
import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from looplab.errors import EXIT_GOOD, EXIT_MACHINE
from looplab.lab.checkout import Lab
from looplab.lab.watch.data import CellView, View, fetch, parse
from looplab.lab.watch.plot import STYLES, plot
from looplab.metrics.view import CellsView
from looplab.system.env_files import read_port
from looplab.spec.roles import Role

EVERY_S = 1.0
# A cell's own line counts; the rest of the screen is the curve's.
MOST_CELLS = 6
LATE_S = 0.005
ONE_LINE: Any = {"no_wrap": True, "overflow": "ellipsis"}
# Who runs beside every experiment; in 80 columns the last has no room: that it answers is seen anyhow.
BESIDE = (Role("treatments", ()), Role("exporter", ()))
NARROWEST, LOWEST = 80, 24


class Screen:
    """Puts a view on the terminal; keeps the last `view`, None before the first one, for rates, and when it was."""

    def __init__(self, console: Console, address: str) -> None:
        self.console = console
        self._address = address
        self.view: View | None = None
        self._seen_s = 0.0
        self._cpu: dict[str, float] = {}
        self._problem = ""

    def take(self, text: str) -> None:
        view, now_s = parse(text), time.monotonic()
        if self.view is not None and now_s > self._seen_s:
            for part, spent_s in view.cpu_s.items():
                before_s = self.view.cpu_s.get(part, spent_s)
                self._cpu[part] = max(0.0, (spent_s - before_s) / (now_s - self._seen_s))
        self.view, self._seen_s, self._problem = view, now_s, ""

    def miss(self, why: str) -> None:
        """Note that no page arrived: the last one stays, with its age."""
        self._problem = why

    def draw(self) -> Group:
        """Return the whole screen."""
        width, height = self.console.width, self.console.height
        view = self.view
        if view is None:
            return Group(*self._waiting())
        head = self._head(view, width)
        tail = [self._parts(view), *self._last_lines(view, width)]
        if not view.scenario:
            return Group(*head, Text("No run yet: ./lab run scenario2"), *tail)
        table = self._table(view)
        used = len(head) + len(tail) + table.row_count + 1
        curves = view.cells[view.current].curves if view.current else {}
        room = max(4, height - used - 1)
        # The last one is drawn last: where two curves lie on each other, it is the one to see.
        ordered = {metric: curves.get(metric, []) for metric in view.shown.metrics} if curves else {}
        return Group(*head, plot(ordered, width, room, braille=self._braille), table, *tail)

    @property
    def _braille(self) -> bool:
        # Without colours three curves of dots are one: letters tell them apart.
        return self.console.encoding.lower().startswith("utf") and self.console.color_system is not None

    def _waiting(self) -> Iterator[Text]:
        yield Text("Looplab: nothing to watch yet", "bold")
        yield Text(f"The exporter does not answer at {self._address} ({self._problem or 'asking'}).")
        yield Text("Start a scenario in another terminal: ./lab run scenario2")
        yield Text("If one runs, see LAB_EXPORTER_PORT in .env, and: docker compose logs exporter")
        yield Text("This view begins by itself. Ctrl-C ends it.", "dim")

    def _head(self, view: View, width: int) -> list[Text]:
        first = Text(**ONE_LINE)
        if view.scenario:
            first.append(f"{view.scenario} {view.fidelity}  ", "bold")
            first.append("measuring" if view.active else "ended", "bold green" if view.active else "bold")
            if view.valid is not None:
                first.append("  VALID" if view.valid else "  INVALID", "green" if view.valid else "bold red")
            share = view.sent / view.planned if view.planned else 0.0
            first.append("  " + _bar(share, max(8, min(30, width - 66)), self._braille))
            first.append(f" {share:4.0%}  {view.sent}/{view.planned}")
        else:
            first.append("Looplab", "bold")
        lines = [first]
        if self._problem:
            age_s = time.monotonic() - self._seen_s
            warning = f"No answer from {self._address} for {age_s:.0f} s: this picture is old."
            if view.active:
                warning += " The run goes on."
            lines.append(Text(warning, "bold yellow", **ONE_LINE))
        elif view.current:
            place, other = view.current
            shown = f"{place}{view.shown.unit}, {view.shown.second_heading} {other}"
            second = Text(f"{view.shown.curves} {shown}:", **ONE_LINE)
            for (metric, meaning), style in zip(view.shown.metrics.items(), STYLES, strict=False):
                second.append(f"  {metric}", style)
                second.append(f" {meaning}")
            lines.append(second)
        return lines

    def _table(self, view: View) -> Table:
        table = Table(box=None, padding=(0, 1, 0, 0), show_edge=False, header_style="dim")
        metric = list(view.shown.metrics)[-1]
        counts = ("sent", *view.shown.outcomes.values())
        heads = (
            view.shown.heading,
            view.shown.second_heading,
            *counts,
            f"{metric} p50",
            "p95",
            "p99",
            "max",
            "sent late",
        )
        for heading in heads:
            table.add_column(heading, justify="right", no_wrap=True)
        keys = list(view.cells)
        at = keys.index(view.current) if view.current else len(keys) - 1
        first = max(0, min(at - MOST_CELLS + 1, len(keys) - MOST_CELLS))
        for key in keys[first : first + MOST_CELLS]:
            style = "bold" if key == view.current and view.active else ""
            table.add_row(*_cell_row(key, view.cells[key], view.shown), style=style)
        return table

    def _parts(self, view: View) -> Text:
        text = Text(**ONE_LINE)
        roles = (*view.roles, *BESIDE)
        for role in roles if self.console.width >= 100 else roles[:-1]:
            part, number = role.name, view.processes.get(role.name, 0)
            if not number and role.optional:
                continue
            online = view.singles.get(f"lab_{part}_online")
            good = bool(number) and online != 0 and (part != "broker" or view.singles.get("lab_broker_up") == 1)
            # The robot may be another machine: then only the bridge knows of it.
            good = good or online == 1
            text.append(part, "green" if good else "red")
            text.append(f" {self._cpu.get(part, 0):.0%}  " if number else " up  " if good else " -  ", "dim")
        return text

    def _last_lines(self, view: View, width: int) -> list[Text]:
        lines = []
        wrong = [labels for labels, verified in view.treatments if not verified and labels["required"] == "true"]
        if wrong:
            first = wrong[0]
            more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
            said = f"Not as wanted: {first['what']}, wanted {first['wanted']}, found {first['found']}{more}"
            lines.append(Text(said, "red", **ONE_LINE))
        elif view.treatments:
            lines.append(Text(f"All {len(view.treatments)} treatments were found as wanted or not required.", "green"))
        broker = view.singles
        said = "broker down" if not broker.get("lab_broker_up") else _broker(broker)
        lines.append(Text(f"{said}    Ctrl-C ends this view, not the run", "dim", **ONE_LINE))
        return lines


def _broker(singles: dict[str, float]) -> str:
    held = singles.get("lab_broker_stored_messages", 0)
    dropped = singles.get("lab_broker_publish_dropped_total", 0)
    clients = singles.get("lab_broker_clients_connected", 0)
    return f"broker: {clients:.0f} clients, {held:.0f} held, {dropped:.0f} dropped"


def _bar(share: float, width: int, unicode: bool) -> str:
    full = round(max(0.0, min(1.0, share)) * width)
    return ("█" if unicode else "#") * full + ("░" if unicode else ".") * (width - full)


def _cell_row(key: tuple[str, str], cell: CellView, shown: CellsView) -> list[str | Text]:
    metric = list(shown.metrics)[-1]
    good, *others = shown.outcomes

    def of(q: str) -> str:
        return _ms(cell.quantiles_s.get((metric, q)))

    bad = [Text(str(cell.outcomes.get(name, 0)), "red" if cell.outcomes.get(name) else "") for name in others]
    late_s = cell.lateness_s.get("0.99")
    late = Text(_ms(late_s), "red" if late_s is not None and late_s > LATE_S else "")
    counts = [f"{key[0]}{shown.unit}", key[1], str(cell.sent), str(cell.outcomes.get(good, 0))]
    return [*counts, *bad, of("0.5"), of("0.95"), of("0.99"), of("1"), late]


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1000:.2f}" if seconds < 1 else f"{seconds * 1000:.0f}"


def exporter_url(settings: dict[str, str]) -> str:
    """Return where .env says that the exporter answers. Raises LabError."""
    port = read_port({"LAB_EXPORTER_PORT": settings.get("LAB_EXPORTER_PORT") or "9101"}, "LAB_EXPORTER_PORT")
    host = settings.get("LAB_BIND", "").strip() or "127.0.0.1"
    return f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{port}"


def watch(root: Path) -> int:
    """Show the view until Ctrl-C or q; print one picture if the output is no terminal."""
    url = exporter_url(Lab(root).settings())
    # Exported by some shells and programs, and wrong as soon as the window changes: the terminal itself is asked.
    for name in ("COLUMNS", "LINES"):
        os.environ.pop(name, None)
    console = Console()
    screen = Screen(console, url.removeprefix("http://"))
    if not console.is_terminal:
        return _once(screen, url)
    if console.width < NARROWEST or console.height < LOWEST:
        console.print(f"This terminal has {console.width} x {console.height} characters; {NARROWEST} x {LOWEST} fit.")
    with (
        contextlib.suppress(KeyboardInterrupt),
        _keys() as quit_wanted,
        Live(screen.draw(), console=console, screen=True, auto_refresh=False) as live,
    ):
        while True:
            _look(screen, url)
            live.update(screen.draw(), refresh=True)
            if quit_wanted(EVERY_S):
                break
    return EXIT_GOOD


def _once(screen: Screen, url: str) -> int:
    _look(screen, url)
    screen.console.print(screen.draw())
    return EXIT_GOOD if screen.view else EXIT_MACHINE


def _look(screen: Screen, url: str) -> None:
    try:
        page = fetch(f"{url}/metrics/live")
        # Between runs the newest stored one is shown.
        screen.take(page if "loop_run_info{" in page else fetch(f"{url}/metrics"))
    except OSError as error:
        screen.miss(str(getattr(error, "reason", error)))


def _never(seconds: float) -> bool:
    time.sleep(seconds)
    return False


@contextlib.contextmanager
def _keys() -> Iterator[Callable[[float], bool]]:
    """Yield a function that waits so many seconds and returns whether q was typed."""
    if not sys.stdin.isatty():
        yield _never
        return
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)

    def quit_wanted(seconds: float) -> bool:
        ready, _, _ = select.select([sys.stdin], [], [], seconds)
        return bool(ready) and sys.stdin.read(1) in ("q", "Q", "")

    try:
        yield quit_wanted
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
