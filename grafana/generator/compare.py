"""Dashboard: finished and running scenarios side by side, with the published figures as constants in the queries."""

import math

from generator.curves import cdf_panel, scenario_curves, scenario_overrides
from generator.dashboard import Dashboard, choice, dashboard
from generator.panels import Panel, words
from generator.queries import labelled, last, named_cells, newest_runs, statistics
from generator.tables import matrix
from looplab.experiments.loop import LoopCell, thesis_tables
from looplab.experiments.loop.fitted import FITTED_CONSTANTS
from looplab.experiments.loop.report import published
from looplab.metrics.distributions import bounds_s

CELLS = 'experiment="loop",fidelity=~"$fidelity",cell=~"$cell"'
CHOSEN = f'scenario=~"$scenario",{CELLS},metric="$metric"'
NEWEST = newest_runs('experiment="loop"')
_RUNS, _SENT = (f'{name}{{experiment="loop"}}' for name in ("lab_run_info", "lab_messages_sent_total"))
_LATENCIES = 'lab_latency_seconds_count{experiment="loop",metric=~"[TRO]"}'
# One robot without load, with stress, and with either priority; the others are a click away.
_FIRST_SHOWN = ["scenario1", "scenario2", "scenario4", "scenario5"]

# (figure, metric, scenarios): title, the question it answers
FIGURES = {
    ("6.1", "R", (0, 1)): (
        "What the robot takes",
        "Scenario 0 answers in the bridge, scenario 1 asks the robot over its serial line. "
        "Published: about 70 us without the robot, about 4 ms with it. The virtual robot's mean R is fitted to that.",
    ),
    ("6.1", "O", (0, 1)): (
        "All but the robot, with and without it",
        "O leaves the robot's time out: should the two curves be the same? Published: 20 % under 8 ms in both.",
    ),
    ("6.2", "O", (2, 3)): (
        "CPU stress, with and without the robot",
        "Published: 60 % under 10 ms with the robot, under 15 ms without.",
    ),
    ("6.3", "O", (1, 2)): (
        "What CPU stress does",
        "Published: 80 % under 9 ms without stress, under 15 ms with it.",
    ),
    ("6.4", "O", (1, 2, 4, 5)): (
        "What priority does under stress",
        "Scenario 4 prioritises the broker, scenario 5 the controller as well. Published: 85 % under 9.5 ms without "
        "stress, 19.5 ms with it, 14.5 ms with stress and priority; the broker alone about as good as both.",
    ),
    ("6.5", "O", (0, 3, 6)): (
        "What the broker's priority does, without the robot",
        "Published: 70 % under 10 ms without stress, 15 ms with it, 12.5 ms with stress and the broker's priority.",
    ),
}


def compare_scenarios() -> Dashboard:
    """Return the dashboard for after the runs."""
    drawn = [_figure(*figure, *text) for figure, text in FIGURES.items()]
    return dashboard(
        "looplab-compare",
        "Compare scenarios",
        "The published comparisons and any other, from the newest run of each scenario within seven days.",
        [
            (14, [_any()]),
            # A latency needs 80 pixels, the published table 480.
            (16, [_table(), _notes()], 14, 10),
            # Two a row: with three their titles do not fit a projector's 1280 pixels.
            *((11, drawn[start : start + 2]) for start in range(0, len(drawn), 2)),
        ],
        [
            choice("scenario", "Scenario", _RUNS, "Drawn in the uppermost panel and the table.", _FIRST_SHOWN),
            choice("fidelity", "Fidelity", _RUNS, "thesis: as published; corrected: no known artefacts.", ["thesis"]),
            choice("cell", "Cell", _SENT, "Time between two requests, and quality of service.", ["20 ms, QoS 0"]),
            choice("metric", "Latency", _LATENCIES, "T: in all, R: at the robot, O: without it.", "O"),
        ],
        refresh="5s",
        since="7d",
    )


def _figure(figure: str, metric: str, scenarios: tuple[int, ...], title: str, description: str) -> Panel:
    names = "|".join(f"scenario{number}" for number in scenarios)
    measured = scenario_curves(f'metric="{metric}",scenario=~"{names}",{CELLS}', NEWEST)
    return cdf_panel(
        f"Figure {figure} ({metric}): {title}",
        f"{description} Points: as published; the source does not state their interval. "
        "Circles: no robot; filled: load; smaller: priority.",
        with_points(measured, figure, metric),
        x_label=f"{metric} latency (points: published)",
        x_min_s=0.00001 if metric == "R" else 0.0001,
        overrides=scenario_overrides(),
    )


def _any() -> Panel:
    return cdf_panel(
        "CDF of $metric: the scenarios chosen above",
        "At 10 ms the curve's height is the share of messages answered within 10 ms. Choose scenarios, fidelity, "
        "cell and latency at the top. Dashed: CPU stress; long dashes: stress with priority; dotted: flood.",
        scenario_curves(CHOSEN, NEWEST),
        x_label="latency",
        x_min_s=None,
        overrides=scenario_overrides(),
    )


def _table() -> Panel:
    named = named_cells(f"({statistics(CHOSEN, NEWEST)})")
    return matrix(
        "$metric in numbers",
        "From the histograms of the lab, at most 5 % off; the report has the exact figures. n counts the answers, late "
        "ones included.",
        f"max by (series, stat) ({named})",
        row_px=250,
    )


def _notes() -> Panel:
    return words(
        "As published at 20 ms, QoS 0, and how far it can be compared",
        "Tables 5.2 to 5.9 of the thesis, in ms; R was published as an average only. Read this before you compare "
        "milliseconds.",
        "Curves are from this machine, points from the thesis's: compare shapes and orderings, not "
        "milliseconds. Published points are drawn at the nearest bound of the histogram (48 a decade, at most 2.5 % "
        "off). The robot here is emulated unless a real one is connected. "
        f"Fitted: {' '.join(map(str, FITTED_CONSTANTS))}\n\n{_published()}",
    )


def nearest_bound_s(latency_s: float, metric: str) -> float:
    """Return the bound of the histogram at which a published point is drawn."""
    return min(bounds_s(*LoopCell.columns[metric].decades), key=lambda bound: abs(math.log(bound / latency_s)))


def with_points(curves: str, figure: str, metric: str) -> str:
    """Return a query for curves and, as a series for each scenario, the published points of a figure.

    At all other bounds those are NaN: the panel draws a missing value at 0, and NaN not at all.
    """
    drawn = [point for point in published.points() if (point.figure, point.metric) == (figure, metric)]
    points = "\nor ".join(
        labelled(
            f"vector({point.height:g})",
            series=f"{point.scenario} published",
            le=repr(nearest_bound_s(point.below_us / 1e6, metric)),
        )
        for point in drawn
    )
    bounds = last(f'lab_latency_seconds_bucket{{experiment="loop",metric="{metric}",le!="+Inf"}}')
    nothing = f"(max by (le) ({bounds} or {points}) * NaN)"
    dense = "\nor ".join(labelled(nothing, series=f"{point.scenario} published") for point in drawn)
    return f"({curves})\nor {points}\nor {dense}"


def _published() -> str:
    """Return the published figures at 20 ms and QoS 0 of each scenario in Markdown, in ms."""
    columns = [f"{metric}_{one}" for metric in "TO" for one in ("min", "avg", "max")] + ["R_avg"]
    lines = [f"| scenario | {' | '.join(name.replace('_', ' ') for name in columns)} |", "|---" * 8 + "|"]
    for row in thesis_tables.rows():
        if (row.interval_ms, row.qos) == (20, 0):
            figures = (f"{row.latency_us[name] / 1000:.2f}" if name in row.latency_us else "-" for name in columns)
            lines.append(f"| {row.scenario} | {' | '.join(figures)} |")
    return "\n".join(lines)
