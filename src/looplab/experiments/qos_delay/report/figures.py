"""Draw the paper's figures from a stored run: latency, latency over delay, packets in a segment, the broker's place."""

import math
from collections.abc import Callable
from dataclasses import replace

from looplab.experiments.qos_delay import NAME
from looplab.experiments.qos_delay.report import MeasuredDelayCell
from looplab.experiments.qos_delay.report.claims import QOS, places, symmetrical
from looplab.report.drawing import LinePlot, Plot, PlotPoint, point
from looplab.report.samples import MeasuredRuns, Runs
from looplab.report.statistics import Interval

TITLES = {
    "Figure 3a: latency": ("3a",),
    "Figure 3b: latency over the end-to-end delay": ("3b",),
    "Figure 4: aggregation": ("4",),
    "Figure 5: the broker's place": ("5",),
}
_DELAY = "mean end-to-end delay that was made, in ms"
_RATIO = "latency over end-to-end delay"
_BARS = "Symmetrical links; bars are 95 % intervals, where they are wider than the mark."


def sketches(runs: Runs) -> list[Plot]:
    """Return figures 3a, 3b, 4 and 5; those for which the run has no cells are left out."""
    run = runs[NAME]
    latency = _over_delay(run, lambda c: _point(c, c.interval("L.avg"), 1000), "publisher to subscriber in ms")
    ratio = _over_delay(run, lambda c: _point(c, c.interval("ratio")), _RATIO)
    packets = _over_delay(run, lambda c: _point(c, c.interval("packets_per_segment")), "MQTT packets in a segment")
    return [
        *replace(latency, slopes={"one way": 1, "round trip": 2}).plot(run, "3a", f"Mean latency. {_BARS}"),
        *replace(ratio, levels=(1, 2, 4, 7)).plot(run, "3b", f"Mean latency over the mean end-to-end delay. {_BARS}"),
        *packets.plot(run, "4", f"MQTT packets that a publisher's segment carries. {_BARS}"),
        *_places(run),
    ]


def _point(cell: MeasuredDelayCell, value: Interval, unit: float = 1) -> PlotPoint | None:
    return None if math.isnan(value.estimate) else point(cell.made_ms or 0, value, unit)


def _over_delay(run: MeasuredRuns, mark: Callable[[MeasuredDelayCell], PlotPoint | None], y_label: str) -> LinePlot:
    points = {f"QoS {qos}": [p for cell in symmetrical(run, qos) if (p := mark(cell))] for qos in QOS}
    return LinePlot({name: series for name, series in points.items() if series}, _DELAY, y_label)


def _places(run: MeasuredRuns) -> list[Plot]:
    """Return figure 5: of the end-to-end delays with the broker at several places, the one with most of them."""
    groups: dict[float, dict[str, list[PlotPoint]]] = {}
    for (delay, qos), cells in places(run).items():
        marks = [(cell.delay_pb_ms, _point(cell, cell.interval("ratio"))) for cell in cells]
        groups.setdefault(delay, {})[f"QoS {qos}"] = [replace(p, x=pb_ms) for pb_ms, p in marks if p]
    if not groups:
        return []
    delay, series = max(groups.items(), key=lambda one: max(map(len, one[1].values())))
    lines = LinePlot(series, "delay from publisher to broker in ms", _RATIO)
    return lines.plot(run, "5", f"The broker at several places of one path of {delay:g} ms.")
