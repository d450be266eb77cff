"""PromQL that several panels share. Prometheus keeps seven days: what a run showed last is there after its end."""

from collections.abc import Sequence

# The labels of one cell of one run, and what its curve is called.
CELL = "run_id, cell"


def last(selector: str) -> str:
    """Return a query for the newest value of each series within seven days, even if its source is gone."""
    return f"last_over_time({selector}[7d])"


def started(selector: str = "") -> str:
    """Return a query for when each run began; `selector` has no braces."""
    return last(f"lab_run_started_timestamp_seconds{{{selector}}}")


def newest_runs(selector: str = "") -> str:
    """Return a condition: of the newest run of each scenario and fidelity."""
    return f"on (run_id) topk by (scenario, fidelity) (1, {started(selector)})"


def newest_run(selector: str) -> str:
    """Return a condition: of the run that was started last, whether it still goes on or not."""
    return f"on (run_id) topk(1, {started(selector)})"


def current_cell(selector: str) -> str:
    """Return a condition: of the newest run's cell that is being measured, or was measured last."""
    current = f"last_over_time(lab_cell_current{{{selector}}}[7d]) == 1"
    return f"on ({CELL}) ({current})\nand {newest_run(selector)}"


def running_cell(selector: str) -> str:
    """Return a condition for a graph over time: of the cell that was measured at each moment.

    A Prometheus that was killed between two runs offers the earlier one for five minutes: only the newer counts.
    """
    newest = f"topk(1, lab_run_started_timestamp_seconds{{{selector}}})"
    run = f"(lab_run_active{{{selector}}} == 1)\nand on (run_id) {newest}"
    return f"on ({CELL}) (lab_cell_current{{{selector}}} == 1)\nand on (run_id) {run}"


def cdf(selector: str, condition: str) -> str:
    """Return a query for the share of the messages sent that were answered within each bound.

    A lost message has no latency, so the curve of a cell with losses ends below 1. F is 1 at +Inf by definition.
    """
    buckets = last(f'lab_latency_seconds_bucket{{{selector},le!="+Inf"}}')
    sent = f"max by ({CELL}) ({last('lab_messages_sent_total')}) > 0"
    return f"({buckets} and {condition})\n/ on ({CELL}) group_left () ({sent})"


def joined(expression: str, label: str, of: Sequence[str], pattern: str) -> str:
    """Give each series the label `label`: `pattern`, in which $1 is the first of the labels `of`, and so on."""
    names = ", ".join(f'"{name}"' for name in of)
    values = "[|]".join(["([^|]*)"] * len(of))
    found = f'label_join({expression}, "{label}", "|", {names})'
    return f'label_replace({found}, "{label}", "{pattern}", "{label}", "{values}")'


def named_cells(expression: str) -> str:
    """Give each series the label `series`: scenario, fidelity and cell."""
    return joined(expression, "series", ["scenario", "fidelity", "cell"], "$1 $2 $3")


def labelled(expression: str, **labels: str) -> str:
    """Give each series these labels."""
    for name, value in labels.items():
        expression = f'label_replace({expression}, "{name}", "{value}", "", "")'
    return expression


def or_named(expression: str, row: str, series: str, text: str) -> str:
    """Return `expression`, or if it is empty one point that is not drawn, of a series named `text`.

    An XY chart without a series says "Err".
    """
    return f"({expression})\nor on () {labelled('vector(NaN)', **{series: text, row: '1'})}"


def whole(curves: str) -> str:
    """Return of `curves` the bounds that all have: an XY chart draws a missing value at 0."""
    counts = f"count by (le) ({curves})"
    return f"({curves})\nand on (le) ({counts} == on () group_left () max({counts}))"


def statistics(selector: str, condition: str) -> str:
    """Return a query for STATISTICS of each cell, by `stat` and the labels of its run."""
    by = "scenario, fidelity, run_id, cell"
    count, total, buckets = (
        f"({last(f'lab_latency_seconds_{part}{{{selector}}}')} and {condition})" for part in ("count", "sum", "bucket")
    )
    figures = {
        "sent": f"({last('lab_messages_sent_total')} and on ({CELL}) {count})",
        "n": count,
        "avg": f"({total} / ({count} > 0))",
        **{f"p{q:g}": f"histogram_quantile({q / 100:g}, {buckets})" for q in (50, 95, 99)},
    }
    return " or ".join(labelled(f"max by ({by}) ({one})", stat=name) for name, one in figures.items())


STATISTICS = ["sent", "n", "avg", "p50", "p95", "p99"]
