"""Dashboard: finished and running scenarios side by side, with the published figures."""

from generator.dashboard import Dashboard, choice, dashboard, fixed_choice
from generator.experiments.loop.queries import CELLS, CHOSEN, STATISTICS, curves, curves_with_published, statistics
from generator.experiments.loop.styles import METRICS, cdf_panel
from generator.panels import Panel, words
from generator.queries import joined, last, padded
from generator.tables import matrix
from looplab.experiments.loop.fitted import FITTED_CONSTANTS

# Has the cells that can be chosen; loop_run_info has the runs of other experiments, too.
_CELL = "loop_latency_seconds_count"

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
    # Two a row: with three their titles do not fit a projector's 1280 pixels.
    drawn = [(12, _figure(*figure, *text)) for figure, text in FIGURES.items()]
    rows = [(11, drawn[start : start + 2]) for start in range(0, len(drawn), 2)]
    return dashboard(
        "looplab-compare",
        "Compare scenarios",
        "The published comparisons and any other, drawn from the newest run of each scenario.",
        [
            (14, [(24, _any())]),
            # As wide as the page: a cell's words and six latencies.
            (8, [(24, _table())]),
            (9, [(12, _published()), (12, _notes())]),
            *rows,
        ],
        [
            choice("scenario", "Scenario", _CELL, "Drawn in the uppermost panel and the tables.", _FIRST_SHOWN),
            choice("fidelity", "Fidelity", _CELL, "thesis: as published; corrected: no known artefacts.", ["thesis"]),
            choice("interval", "Interval (ms)", _CELL, "Time between two requests.", ["20"], of="interval_ms"),
            choice("qos", "QoS", _CELL, "MQTT quality of service.", ["0"]),
            fixed_choice("metric", "Latency", "For the uppermost panel and the tables.", METRICS, "O"),
        ],
        refresh="5s",
        since="24h",
    )


def _figure(figure: str, metric: str, scenarios: tuple[int, ...], title: str, description: str) -> Panel:
    names = "|".join(f"scenario{number}" for number in scenarios)
    return cdf_panel(
        f"Figure {figure} ({metric}): {title}",
        f"{description} Squares: published points; the source does not state their interval.",
        curves_with_published(f'metric="{metric}",scenario=~"{names}",{CELLS}', figure, metric),
        x_label=f"{metric} latency (squares: published)",
        x_min_s=0.00001 if metric == "R" else 0.0001,
    )


def _any() -> Panel:
    return cdf_panel(
        "CDF of $metric: the scenarios chosen above",
        "At 10 ms the curve's height is the share of messages answered within 10 ms. Choose scenarios, fidelity, "
        "interval, QoS and latency at the top. Dashed: CPU stress; long dashes: stress with priority; dotted: flood.",
        curves(CHOSEN),
        x_label="latency",
        x_min_s=None,
    )


def _table() -> Panel:
    return matrix(
        "$metric in numbers",
        "From the raw samples, no value left out. n counts the answers, late ones included.",
        statistics(CHOSEN),
        columns=STATISTICS,
        row_title="cell",
        order="order",
        row_px=430,
    )


def _published() -> Panel:
    selector = 'published_latency_seconds{scenario=~"$scenario",interval_ms=~"$interval",qos=~"$qos",metric="$metric"}'
    named = joined(last(selector), "cell", ["scenario", "interval_ms", "qos"], "$1 ${2}ms QoS$3")
    query = f'label_join({padded(named, "padded", "interval_ms")}, "order", " ", "scenario", "padded", "qos")'
    return matrix(
        "$metric as published",
        "Tables 5.2 to 5.9 of the thesis, 1000 messages a cell; R was published as an average only. "
        "At 10 ms most runs had fewer answers than requests and have no figures.",
        f"max by (cell, order, statistic) ({query})",
        row="cell",
        order="order",
        column="statistic",
        columns=["min", "avg", "max"],
        row_title="cell",
    )


def _notes() -> Panel:
    return words(
        "How far these curves can be compared",
        "Read this before you compare milliseconds: what differs between this machine and the thesis's, and which "
        "constants were fitted.",
        "Curves are from this machine, squares from the thesis's: compare shapes and orderings, not "
        "milliseconds. Published points are drawn at the nearest bound of the histogram (48 a decade, at most 2.5 % "
        "off). The robot here is emulated unless a real one is connected. "
        f"Fitted: {' '.join(map(str, FITTED_CONSTANTS))}",
    )
