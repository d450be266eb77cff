"""A verdict with the figures behind it: measured and published, side by side."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from looplab.report.csv_rows import spread
from looplab.report.samples import Measured, Runs
from looplab.report.statistics import FEWEST_RUNS, Interval
from looplab.report.verdicts import NO_RUN, Claim, Verdict, Verdicts, too_few


@dataclass(frozen=True)
class Line:
    """One figure behind a verdict, with its interval if there is one."""

    what: str
    value: Interval
    published: str
    unit: str = "×"


@dataclass
class Finding(Verdict):
    """The verdict on one finding of a paper, with the figures behind it."""

    lines: Sequence[Line] = ()


def asked(name: str, title: str, scenario: str, answer: Callable[[Measured], Finding]) -> Claim:
    """Return a claim about the runs of one scenario: no verdict from fewer than three; an INVALID one is named."""

    def judge(runs: Runs) -> Finding:
        run = runs.get(scenario)
        if run is None:
            return Finding(NO_RUN, f"There is no usable run: ./lab run {scenario}")
        finding = of_several_runs(answer(run), run)
        finding.rests_on = run
        if not run.run.valid and finding.outcome != NO_RUN:
            finding.notes.append(
                f"{run.run.run_id} is INVALID ({run.run.invalid_because}); only its valid cells were used."
            )
        return finding

    return Claim(name, title, judge)


def of_several_runs(finding: Finding, *sides: Measured) -> Finding:
    """Take the verdict from a finding on too few runs of a side: its figures are shown all the same."""
    few = too_few(min(len(side.runs) for side in sides))
    if few and finding.outcome != NO_RUN:
        finding.outcome, finding.rule = few, None
        finding.reason = f"{finding.reason} A verdict needs {FEWEST_RUNS} runs.".strip()
    return finding


def exact(value: float) -> Interval:
    """Return a figure without an interval."""
    return Interval(value, math.nan, math.nan)


def within(value: Interval, low: float, high: float) -> bool | None:
    """Return whether the whole interval is inside (True) or outside (False); None if it holds both or is unknown."""
    if low <= value.low and value.high <= high:
        return True
    return False if value.high < low or value.low > high else None


def finding_rows(verdicts: Verdicts) -> Iterator[dict[str, object]]:
    """Yield a row of a CSV file for each line of each finding; one for a finding without lines."""
    for claim, answers in verdicts:
        for fidelity, verdict in answers.items():
            assert isinstance(verdict, Finding)
            lines: Sequence[Line | None] = verdict.lines or [None]
            for line in lines:
                value = spread("value", line.value if line else None, ".4f")
                yield {
                    "finding": claim.name,
                    "fidelity": fidelity,
                    "verdict": verdict.outcome,
                    "reason": verdict.reason,
                    "cell": line.what if line else "",
                    **dict(zip(("value", "low", "high"), value.values(), strict=True)),
                    "unit": line.unit if line else "",
                    "published": line.published if line else "",
                    "beside": " ".join(verdict.notes),
                }
