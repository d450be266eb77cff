"""What is O made of? A stacked bar for each run: the averages of the ledger's parts, which add up to the mean O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from looplab.experiments.loop import KnownParts
from looplab.experiments.loop.ledger import NAMES
from looplab.experiments.loop.report import cells_of
from looplab.report.drawing import Plot
from looplab.report.samples import MeasuredRuns, Runs

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
# Room for the names of the scenarios, and for three lines of a legend.
PLACE = (0.2, 0.145, 0.775, 0.665)


def makeups(runs: Mapping[str, Runs]) -> list[Plot]:
    """Return a figure for each fidelity in which the parts of O are known."""
    bars = {fidelity: dict(bar for m in by_name.values() for bar in _bar(m)) for fidelity, by_name in runs.items()}
    return [_makeup(fidelity, of_fidelity) for fidelity, of_fidelity in bars.items() if of_fidelity]


def _bar(measured: MeasuredRuns) -> Iterator[tuple[str, KnownParts]]:
    """Yield the name and the parts of the lowest QoS of all runs; nothing where they predate the ledger."""
    every = (cell for one in measured.runs for cell in cells_of(one).values())
    by_qos = [(cell.qos, known) for cell in every if (known := cell.known_parts)]
    if by_qos:
        qos = min(own for own, _ in by_qos)
        label = measured.run.scenario.replace("scenario", "scenario ") + (f", QoS {qos}" if qos else "")
        yield label, KnownParts.pooled([known for own, known in by_qos if own == qos])


def _makeup(fidelity: str, bars: Mapping[str, KnownParts]) -> Plot:
    caption = "Averages over all intervals, of the messages of which every part is known. QoS 0 unless named."
    others = [
        f"{label} {bar.measured - bar.count} of {bar.measured}, {bar.others_us / 1000:.3g} ms"
        for label, bar in bars.items()
        if bar.others_us is not None
    ]
    if others:
        caption += (
            f" Messages with an unknown part, and their mean O: {'; '.join(others)}. The kernel stamps the last of "
            "messages that come in together."
        )
    texts = []
    for label, bar in bars.items():
        parts = ", ".join(f"{NAMES[name]} {us / 1000:.3g} ms" for name, us in bar.parts_us.items())
        texts.append(f"{label}: mean O {bar.sum_us / 1000:.3g} ms, of it {parts}")
    alternative = f"Stacked bars of what O is made of. {'; '.join(texts)}."
    name = f"figure_{FIGURE}_{fidelity}"
    return Plot(name, FIGURE, fidelity, caption, alternative, partial(_stack, bars), place=PLACE, legend_columns=2)


def _stack(bars: Mapping[str, KnownParts], axes: Axes) -> None:
    from matplotlib import rc_context

    rows = range(len(bars))
    left = [0.0] * len(bars)
    with rc_context({"hatch.linewidth": 0.6}):
        for name, (colour, hatch) in FILLS.items():
            widths = [bar.parts_us[name] / 1000 for bar in bars.values()]
            for drawn in axes.barh(rows, widths, 0.7, left, label=NAMES[name], color=colour, hatch=hatch):
                drawn.set(edgecolor="#333333", linewidth=0.4)
            left = [start + width for start, width in zip(left, widths, strict=True)]
    axes.set_yticks(rows, [*bars], fontsize=8)
    axes.invert_yaxis()
    axes.set_axisbelow(True)
    axes.set_xlabel("mean O in ms")
