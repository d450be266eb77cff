"""PromQL over the cells of the control loop."""

from generator.experiments.loop.styles import SCENARIO_WORDS
from generator.queries import by_stat, fresh_cells, joined, last, newest_run, padded

# The labels of one cell, and of one curve.
CELL = "scenario, fidelity, interval_ms, qos"
CURVE = f"{CELL}, metric"

# The cells chosen at the top of the dashboard.
CELLS = 'fidelity=~"$fidelity",interval_ms=~"$interval",qos=~"$qos"'
CHOSEN = f'scenario=~"$scenario",{CELLS},metric="$metric"'

NEWEST = newest_run()
# The newest run's cell that is being measured, or was measured last.
CURRENT_CELL = f"on ({CELL}) (last_over_time(loop_cell_current[$__range]) == 1)\nand on (scenario, fidelity) {NEWEST}"
# The same in a graph over time: at each moment the cell that was measured then. A Prometheus that was restarted between
# two runs still offers the last cell of the earlier one for five minutes.
_OWN = (
    "(loop_cell_run_started_timestamp_seconds "
    "== on (scenario, fidelity) group_left () loop_run_started_timestamp_seconds)"
)
RUNNING_CELL = (
    f"on ({CELL}) (loop_cell_current == 1) and on ({CELL}) {_OWN} and on (scenario, fidelity) (loop_run_active == 1)"
)
FRESH_CELLS = fresh_cells("loop", CELL)


def _named(cells: str) -> str:
    """Give each cell a readable `series`, and `order`, by which names sort as their numbers do.

    Panels leave out the words that all their names share, so no blank stands between a number and its unit.
    """
    # A scenario of one's own has no words here.
    cells = joined(cells, "name", ["scenario"], "$1")
    for scenario, words in SCENARIO_WORDS.items():
        # No-break spaces: panels leave out words, and would leave parts of these.
        name = f"{scenario}: {words}".replace(" ", "\N{NO-BREAK SPACE}")
        cells = f'label_replace({cells}, "name", "{name}", "scenario", "{scenario}")'
    series = joined(cells, "series", ["name", "fidelity", "interval_ms", "qos"], "$1 $2 ${3}ms QoS$4")
    numbered = padded(series, "padded", "interval_ms")
    return f'label_join({numbered}, "order", " ", "scenario", "fidelity", "padded", "qos")'


# How many messages each of these cells has sent, with the name of its curve.
SENT = "(" + _named(f"max by ({CELL}) ({last('loop_messages_sent_total')} and {FRESH_CELLS})") + ")"
QUANTILES = {"min": "0", "p50": "0.5", "p95": "0.95", "p99": "0.99", "max": "1"}
STATISTICS = ["n", "min", "avg", "p50", "p95", "p99", "max"]


def of_newest(selector: str) -> str:
    """Return a query for the sum of a series over the cells of the newest run."""
    return f"sum by (scenario) ({last(selector)} and {FRESH_CELLS}\nand on (scenario, fidelity) {NEWEST})"


def bucket(selector: str) -> str:
    """Return the buckets of `selector` (without braces) but the last; F is 1 there by definition."""
    return "loop_latency_seconds_bucket{" + selector + ',le!="+Inf"}'


def cdf(selector: str, within: str = "") -> str:
    """Return a query for the share of the messages sent that were answered within each bound.

    A lost message has no latency, so the curve of a cell with losses ends below 1. `selector` has no braces; `within`
    is an `and …` that leaves some cells out.
    """
    answered = f"(max by ({CURVE}, le) ({last(bucket(selector))}) {within})"
    return f"{answered}\n/ on ({CELL}) group_left (series, order) {SENT}"


def cdf_to_p999(within: str) -> str:
    """Return a query for the CDFs of T, R and O of the cell `within`, up to where all have 999 of 1000 answers.

    R's buckets begin lower; only the bounds that T has too are kept.
    """
    of_t = 'metric="T"'
    every = cdf('metric=~"T|R|O"', f"and {within}")
    answered = f"max by ({CURVE}) ({last('loop_latency_seconds_count')})"
    times = f"max by ({CURVE}, le) ({last(bucket(of_t))} and {within})"
    return f"({every})\nand on (le) (({times}\n/ on ({CURVE}) group_left () {answered}) < 0.999)"


def curves(selector: str, within: str = "") -> str:
    """Return a query for CDFs, one `series` each."""
    return f"max by (series, order, le) ({cdf(selector, within)})"


def curves_with_published(selector: str, figure: str, metric: str) -> str:
    """Return a query for CDFs and, as a series for each scenario drawn, the published points of `figure`.

    Those are NaN at all other bounds: the panel draws a missing value at 0, and NaN not at all.
    """
    measured = cdf(selector)
    published = last(f'published_latency_cdf_ratio{{figure="{figure}",metric="{metric}"}}')
    points = f"max by (scenario, le) ({published})"
    elsewhere = f"max by (scenario, le) ({measured}) * NaN"
    dense = f"({points} and on (scenario) ({measured}))\nor ({elsewhere} and on (scenario) {points})"
    labelled = joined(joined(dense, "series", ["scenario"], "$1 published"), "order", ["scenario"], "$1")
    return f"{curves(selector)}\nor max by (series, order, le) ({labelled})"


def statistics(selector: str) -> str:
    """Return a query for STATISTICS of each chosen cell, by `series` and `stat`."""
    count, total = (last(f"loop_latency_seconds_{kind}{{{selector}}}") for kind in ("count", "sum"))
    figures = {name: last(f'loop_latency_quantile_seconds{{{selector},q="{q}"}}') for name, q in QUANTILES.items()}
    figures |= {"n": count, "avg": f"({total} / ({count} > 0))"}
    rows = f"({by_stat(CURVE, {name: figures[name] for name in STATISTICS})})"
    return f"max by (series, order, stat) ({rows}\n* on ({CELL}) group_left (series, order) ({SENT} ^ 0))"
