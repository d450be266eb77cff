"""What is O made of? A stacked bar for each run: the averages of the ledger's parts, which add up to the mean O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from looplab.experiments.loop.ledger import NAMES
from looplab.experiments.loop.report import MeasuredLoop, cells_of
from looplab.report.drawing import Plot
from looplab.report.samples import Runs
from looplab.spec.columns import of_runs

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HEADING = "What is O made of?"
FIGURE = "makeup"
TEXT = (
    "The kernel stamps when bytes come from the network and when they go to it. So O has five parts, each on one "
    "machine's clock. A wake-up lasts from the kernel receiving a message until the program has it: it includes "
    "waiting for a processor and TLS decryption. A send path lasts from the program to the network: it includes "
    "encryption and the wait of Nagle's algorithm. Network and broker is what remains of O."
)
# Fill and hatch of each part: apart in grey print, too. The parts of one end have one hue.
FILLS = {
    "send_path": ("#0072b2", "////"),
    "wake_up": ("#56b4e9", ""),
    "bridge_wake_up": ("#e69f00", "xxx"),
    "bridge_send_path": ("#d55e00", "\\\\\\\\"),
    "network": ("#dddddd", "..."),
}
# The cells behind a bar, by its label.
Bars = Mapping[str, Sequence[MeasuredLoop]]
# Room for the names of the scenarios, and for three lines of a legend.
PLACE = (0.2, 0.145, 0.775, 0.665)


def makeups(runs: Mapping[str, Runs]) -> list[Plot]:
    """Return a figure for each fidelity in which the parts of O are known."""
    bars = {fidelity: _bars(by_name) for fidelity, by_name in runs.items()}
    return [_makeup(fidelity, of_fidelity) for fidelity, of_fidelity in bars.items() if of_fidelity]


def _bars(runs: Runs) -> Bars:
    """Return the cells at the lowest QoS of each scenario; none of runs that predate the ledger."""
    bars = {}
    for scenario, measured in runs.items():
        cells = [cell for cell in cells_of(measured).values() if cell.known_parts]
        qos = min((cell.qos for cell in cells), default=0)
        label = scenario.replace("scenario", "scenario ") + (f", QoS {qos}" if qos else "")
        bars[label] = [cell for cell in cells if cell.qos == qos]
    return {label: cells for label, cells in bars.items() if cells}


def _parts_us(cells: Sequence[MeasuredLoop]) -> dict[str, float]:
    """Return the mean of each part over all messages of the cells."""
    return {name: of_runs([cell.known_parts[name] for cell in cells])["avg"] for name in NAMES}


def _makeup(fidelity: str, bars: Bars) -> Plot:
    texts, others = [], []
    for label, cells in bars.items():
        known, measured = sum(cell.known_parts["network"]["n"] for cell in cells), sum(cell.O["n"] for cell in cells)
        others.append(f"{label} {measured - known} of {measured}")
        parts_us = _parts_us(cells)
        parts = ", ".join(f"{NAMES[name]} {us / 1000:.3g} ms" for name, us in parts_us.items())
        texts.append(f"{label}: mean O {sum(parts_us.values()) / 1000:.3g} ms, of it {parts}")
    caption = "Averages over all intervals, of the messages of which every part is known. QoS 0 unless named."
    caption += f" Messages with an unknown part: {'; '.join(others)}."
    alternative = f"Stacked bars of what O is made of. {'; '.join(texts)}."
    name = f"figure_{FIGURE}_{fidelity}"
    return Plot(name, FIGURE, fidelity, caption, alternative, partial(_stack, bars), place=PLACE, legend_columns=2)


def _stack(bars: Bars, axes: Axes) -> None:
    from matplotlib import rc_context

    rows, each = range(len(bars)), [_parts_us(cells) for cells in bars.values()]
    left = [0.0] * len(bars)
    with rc_context({"hatch.linewidth": 0.6}):
        for name, (colour, hatch) in FILLS.items():
            widths = [parts_us[name] / 1000 for parts_us in each]
            for drawn in axes.barh(rows, widths, 0.7, left, label=NAMES[name], color=colour, hatch=hatch):
                drawn.set(edgecolor="#333333", linewidth=0.4)
            left = [start + width for start, width in zip(left, widths, strict=True)]
    axes.set_yticks(rows, [*bars], fontsize=8)
    axes.invert_yaxis()
    axes.set_axisbelow(True)
    axes.set_xlabel("mean O in ms")
