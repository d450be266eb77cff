"""PromQL that several panels share. Every query outlives its source: last_over_time over the shown range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

# What tells one curve from another.
CELL = "scenario, fidelity, interval_ms, qos"
CURVE = f"{CELL}, metric"

CHOSEN_CELLS = 'scenario=~"$scenario",fidelity=~"$fidelity",interval_ms=~"$interval",qos=~"$qos"'
CHOSEN = CHOSEN_CELLS + ',metric="$metric"'

# The run that was started last, whether it goes on or not.
NEWEST = "topk(1, last_over_time(loop_run_started_timestamp_seconds[$__range]))"
# Its cell that is being measured, or was last.
CURRENT_CELL = f"on ({CELL}) (last_over_time(loop_cell_current[$__range]) == 1)\nand on (scenario, fidelity) {NEWEST}"
# The same in a graph over time: at each moment the cell that was measured then.
RUNNING_CELL = f"on ({CELL}) (loop_cell_current == 1) and on (scenario, fidelity) (loop_run_active == 1)"


# Cells of each scenario's newest run only: an earlier, longer run may have had intervals that this one has not.
FRESH_CELLS = (
    f"on ({CELL}) (last_over_time(loop_cell_run_started_timestamp_seconds[$__range])\n"
    "== on (scenario, fidelity) group_left () last_over_time(loop_run_started_timestamp_seconds[$__range]))"
)


def last(selector: str) -> str:
    """The newest value of a series in the shown range, also when its source is gone."""
    return f"last_over_time({selector}[$__range])"


def cdf(selector: str, within: str = "") -> str:
    """Share of messages answered within each bound; `selector` without braces.

    `within` is an `and …` that leaves some cells out.
    """
    buckets = last("loop_latency_seconds_bucket{" + selector + ',le!="+Inf"}')
    counts = last("loop_latency_seconds_count{" + selector + "}")
    share = f"(max by ({CURVE}, le) ({buckets}) {within})\n/ on ({CURVE}) group_left ()\n"
    return share + f"(max by ({CURVE}) ({counts}) > 0 and {FRESH_CELLS})"


def named(expression: str) -> str:
    """Give each curve a readable `series`; the panel leaves out the words that all its names share.

    No blank between a number and its unit: where only the interval differs, `20ms` is left and not `20`.
    """
    return joined(expression, "series", ["scenario", "fidelity", "interval_ms", "qos"], "$1 $2 ${3}ms QoS$4")


def joined(expression: str, label: str, of: Sequence[str], pattern: str) -> str:
    """Give each series the label `label`: `pattern`, in which $1 is the first of the labels `of`, and so on."""
    names = ", ".join(f'"{name}"' for name in of)
    values = "[|]".join(["([^|]*)"] * len(of))
    found = f'label_join({expression}, "{label}", "|", {names})'
    return f'label_replace({found}, "{label}", "{pattern}", "{label}", "{values}")'


def by_stat(by: str, figures: Mapping[str, str]) -> str:
    """The rows of a table of statistics: each expression's newest value for the labels `by`, its name as `stat`."""
    return " or ".join(
        f'label_replace(max by ({by}) ({expression}), "stat", "{name}", "", "")' for name, expression in figures.items()
    )


def curves(selector: str, within: str = "") -> str:
    """CDFs, one `series` each."""
    return f"max by (series, le) ({named(cdf(selector, within))})"


def curves_with_published(selector: str, figure: str, metric: str) -> str:
    """CDFs, and for each scenario drawn the published points of `figure` as a series of their own.

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
    """n, min, avg, quantiles, max of each chosen cell, by `series` and `stat`."""

    def quantile(q: str) -> str:
        return last(f'loop_latency_quantile_seconds{{{selector},q="{q}"}}')

    count, total = last(f"loop_latency_seconds_count{{{selector}}}"), last(f"loop_latency_seconds_sum{{{selector}}}")
    figures = {
        "n": count,
        "min": quantile("0"),
        "avg": f"({total} / ({count} > 0))",
        "p50": quantile("0.5"),
        "p95": quantile("0.95"),
        "p99": quantile("0.99"),
        "max": quantile("1"),
    }
    fresh = f"({by_stat(CURVE, figures)}) and {FRESH_CELLS}"
    return f"max by (series, stat) ({named(fresh)})"
