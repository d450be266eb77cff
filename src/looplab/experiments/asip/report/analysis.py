"""From measured runs of asip to everything that the report shows: findings, figures, CSV files, page."""

from collections.abc import Sequence
from dataclasses import replace

from looplab.experiments.asip import EXPERIMENT, THROUGHPUT
from looplab.experiments.asip.report import published
from looplab.experiments.asip.report.figures import HERE, NAMES, rows
from looplab.report.analysis import Analysis, by_spec
from looplab.report.finding import Finding
from looplab.report.samples import Measured
from looplab.report.statistics import Interval
from looplab.report.verdicts import Claim, Verdict


def analyse(measured: Sequence[Measured]) -> Analysis:
    """Return what these runs show: of each scenario, one of each fidelity."""
    usual = [m for m in measured if not m.run.factors]
    axis = "second side over first (Java over Python, and so on)"
    common = by_spec(EXPERIMENT, measured, axis=axis, compared=_compared)
    context = {
        "sections": (("claims", "Claims"), ("published", "Published and measured"), ("cells", "Cells")),
        "beside": [_published_and_measured(m) for m in usual],
        "columns": [(language, NAMES[t]) for language in published.LANGUAGES for t in published.TRANSPORTS],
    }
    return replace(common, context={**common.context, **context})


def _compared(_claim: Claim, finding: Verdict) -> tuple[Interval | None, float | None]:
    assert isinstance(finding, Finding)
    for first in finding.lines[:1]:
        if first.published and first.unit == "×" and " " not in first.published:
            return first.value.change, float(first.published) - 1
    return None, None


def _published_and_measured(run: Measured) -> tuple[str, str, list[tuple[str, list[Interval | None]]]]:
    """Return a table of published rows, then measured ones: heading, unit, rows of a value for each column."""
    each = [rows(run, language) for language in published.LANGUAGES]
    names = sorted({name: 0 for one in each for name in one}, key=lambda name: name.startswith(HERE))
    table = [(name, [one.get(name, {}).get(t) for one in each for t in published.TRANSPORTS]) for name in names]
    hz = run.run.scenario == THROUGHPUT
    heading, unit = ("Throughput: highest frequency tracked", "Hz") if hz else ("Latency: mean", "ms")
    return f"{heading} in {unit}, {run.run.fidelity}", unit, table
