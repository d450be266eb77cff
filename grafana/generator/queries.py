"""PromQL that several panels share. Every query outlives its source: last_over_time over the shown range."""

from collections.abc import Mapping, Sequence


def last(selector: str) -> str:
    """Return a query for the newest value of a series in the shown range, even if its source is gone."""
    return f"last_over_time({selector}[$__range])"


def newest_run(selector: str = "") -> str:
    """Return a query for the run that was started last, whether it still goes on or not."""
    return f"topk(1, last_over_time(loop_run_started_timestamp_seconds{selector}[$__range]))"


def joined(expression: str, label: str, of: Sequence[str], pattern: str) -> str:
    """Give each series the label `label`: `pattern`, in which $1 is the first of the labels `of`, and so on."""
    names = ", ".join(f'"{name}"' for name in of)
    values = "[|]".join(["([^|]*)"] * len(of))
    found = f'label_join({expression}, "{label}", "|", {names})'
    return f'label_replace({found}, "{label}", "{pattern}", "{label}", "{values}")'


def by_stat(by: str, figures: Mapping[str, str]) -> str:
    """Return the rows of a table of statistics: each expression by the labels `by`, its name in the label `stat`."""
    return " or ".join(
        f'label_replace(max by ({by}) ({expression}), "stat", "{name}", "", "")' for name, expression in figures.items()
    )
