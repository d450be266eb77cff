"""PromQL over the cells of the control loop."""

from generator.queries import by_stat, joined, last, newest_run

# The labels of one cell, and of one curve.
CELL = "scenario, fidelity, interval_ms, qos"
CURVE = f"{CELL}, metric"

# The cells chosen at the top of the dashboard.
CELLS = 'fidelity=~"$fidelity",interval_ms=~"$interval",qos=~"$qos"'
CHOSEN = f'scenario=~"$scenario",{CELLS},metric="$metric"'

NEWEST = newest_run()
# The newest run's cell that is being measured, or was measured last.
CURRENT_CELL = f"on ({CELL}) (last_over_time(loop_cell_current[$__range]) == 1)\nand on (scenario, fidelity) {NEWEST}"
# The same in a graph over time: at each moment the cell that was measured then.
RUNNING_CELL = f"on ({CELL}) (loop_cell_current == 1) and on (scenario, fidelity) (loop_run_active == 1)"
# Cells of each scenario's newest run only: an earlier, longer run may have had intervals that this one has not.
FRESH_CELLS = (
    f"on ({CELL}) (last_over_time(loop_cell_run_started_timestamp_seconds[$__range])\n"
    "== on (scenario, fidelity) group_left () last_over_time(loop_run_started_timestamp_seconds[$__range]))"
)
QUANTILES = {"min": "0", "p50": "0.5", "p95": "0.95", "p99": "0.99", "max": "1"}
STATISTICS = ["n", "min", "avg", "p50", "p95", "p99", "max"]


def of_newest(selector: str, by: str = "") -> str:
    """Return a query for the sum of a series over the newest run."""
    return f"sum{by and f' by ({by}) '}({last(selector)} and on (scenario, fidelity) {NEWEST})"


def bucket(selector: str) -> str:
    """Return the buckets of `selector` (without braces) but the last; F is 1 there by definition."""
    return "loop_latency_seconds_bucket{" + selector + ',le!="+Inf"}'


def cdf(selector: str, within: str = "") -> str:
    """Return a query for the share of messages answered within each bound; `selector` has no braces.

    `within` is an `and …` that leaves some cells out.
    """
    counts = last("loop_latency_seconds_count{" + selector + "}")
    share = f"(max by ({CURVE}, le) ({last(bucket(selector))}) {within})\n/ on ({CURVE}) group_left ()\n"
    return share + f"(max by ({CURVE}) ({counts}) > 0 and {FRESH_CELLS})"


def named(expression: str) -> str:
    """Give each curve a readable `series`; the panel leaves out the words that all its names share.

    No blank between a number and its unit: if only the interval differs, `20ms` is left and not `20`.
    """
    return joined(expression, "series", ["scenario", "fidelity", "interval_ms", "qos"], "$1 $2 ${3}ms QoS$4")


def curves(selector: str, within: str = "") -> str:
    """Return a query for CDFs, one `series` each."""
    return f"max by (series, le) ({named(cdf(selector, within))})"


def curves_with_published(selector: str, figure: str, metric: str) -> str:
    """Return a query for CDFs and, as a series for each scenario drawn, the published points of `figure`.

    Those are NaN at all other bounds: the panel draws a missing value at 0, and NaN not at all.
    """
    measured = cdf(selector)
    published = last(f'published_latency_cdf_ratio{{figure="{figure}",metric="{metric}"}}')
    points = f"max by (scenario, le) ({published})"
    elsewhere = f"max by (scenario, le) ({measured}) * NaN"
    dense = f"({points} and on (scenario) ({measured}))\nor ({elsewhere} and on (scenario) {points})"
    labelled = f'label_replace({dense}, "series", "$1 published", "scenario", "(.*)")'
    return f"{curves(selector)}\nor max by (series, le) ({labelled})"


def statistics(selector: str) -> str:
    """Return a query for STATISTICS of each chosen cell, by `series` and `stat`."""
    count, total = (last(f"loop_latency_seconds_{kind}{{{selector}}}") for kind in ("count", "sum"))
    figures = {name: last(f'loop_latency_quantile_seconds{{{selector},q="{q}"}}') for name, q in QUANTILES.items()}
    figures |= {"n": count, "avg": f"({total} / ({count} > 0))"}
    fresh = f"({by_stat(CURVE, {name: figures[name] for name in STATISTICS})}) and {FRESH_CELLS}"
    return f"max by (series, stat) ({named(fresh)})"
