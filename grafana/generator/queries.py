"""PromQL that several panels share. Every query outlives its source: last_over_time over the shown range."""

from collections.abc import Mapping, Sequence


def last(selector: str) -> str:
    """Return a query for the newest value of a series in the shown range, even if its source is gone."""
    return f"last_over_time({selector}[$__range])"


def started(selector: str = "") -> str:
    """Return a query for when the newest run of each scenario was started.

    A run that `results/` no longer has is absent a minute later: the exporter answers and does not name it. While no
    exporter answers, the newest values of the shown range stay.
    """
    name = "loop_run_started_timestamp_seconds" + selector
    answers = '(max(max_over_time(up{job="stored"}[1m])) == 1)'
    return f"(last_over_time({name}[1m]) or (last_over_time({name}[$__range]) unless on () {answers}))"


def newest_run(selector: str = "") -> str:
    """Return a query for the run that was started last, whether it still goes on or not."""
    return f"topk(1, {started(selector)})"


def fresh_cells(family: str, cell: str, selector: str = "") -> str:
    """Return a condition: the cell is of its scenario's newest run. An earlier, longer one had more cells."""
    of_cell = last(f"{family}_cell_run_started_timestamp_seconds{selector}")
    return f"on ({cell}) ({of_cell}\n== on (scenario, fidelity) group_left () {started(selector)})"


def joined(expression: str, label: str, of: Sequence[str], pattern: str) -> str:
    """Give each series the label `label`: `pattern`, in which $1 is the first of the labels `of`, and so on."""
    names = ", ".join(f'"{name}"' for name in of)
    values = "[|]".join(["([^|]*)"] * len(of))
    found = f'label_join({expression}, "{label}", "|", {names})'
    return f'label_replace({found}, "{label}", "{pattern}", "{label}", "{values}")'


def padded(expression: str, label: str, source: str) -> str:
    """Give each series the label `label`: the number with which `source` begins, as text that sorts as numbers do."""
    digits = f'label_replace({expression}, "{label}", "0000$1$2", "{source}", "([0-9]+)([.][0-9]+)?.*")'
    return f'label_replace({digits}, "{label}", "$1", "{label}", "0*([0-9]{{5}}([.][0-9]+)?)")'


def or_named(expression: str, row: str, series: str, text: str) -> str:
    """Return `expression`, or if it is empty one point that is not drawn, of a series named `text`.

    An XY chart without a series says "Err".
    """
    nothing = f'label_replace(vector(NaN), "{series}", "{text}", "", "")'
    return f'({expression})\nor on () label_replace({nothing}, "{row}", "1", "", "")'


def whole(curves: str) -> str:
    """Return of `curves` those that have as many points as the longest: an XY chart draws a missing value at 0."""
    lengths = f"count by (series) ({curves})"
    return f"{curves}\nand on (series) ({lengths} == on () group_left () max({lengths}))"


def by_stat(by: str, figures: Mapping[str, str]) -> str:
    """Return the rows of a table of statistics: each expression by the labels `by`, its name in the label `stat`."""
    return " or ".join(
        f'label_replace(max by ({by}) ({expression}), "stat", "{name}", "", "")' for name, expression in figures.items()
    )
