"""The page on network delay and QoS: self-contained, nothing is fetched to read it."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from looplab import __version__
from looplab.experiments.loop.report.page import SIGNS, show_ms
from looplab.experiments.qos_delay.report.drawing import Drawing
from looplab.experiments.qos_delay.report.findings import Finding, Question
from looplab.experiments.qos_delay.report.runs import BLOCK_S, DelaySelection

FIGURES = {
    "3a": "Figure 3a: latency",
    "3b": "Figure 3b: latency over the end-to-end delay",
    "4": "Figure 4: aggregation",
    "5": "Figure 5: the broker's place",
}
METHOD = (
    "Publisher and subscriber are one process with one clock; the latency is that from the publish call to the "
    "subscriber's callback. The end-to-end delay is the mean of both links' delays as the emulator made them, packet "
    "by packet.",
    f"Messages that follow each other share a connection and are correlated. Intervals are therefore those of "
    f"blocks of {BLOCK_S:g} s, not of single messages, each block a repetition as on the page of the scenarios; a cell "
    "shorter than three blocks has no interval.",
    "“About n” means within a factor 1.41 of n, nearer to n than to the next published step. A finding is reproduced "
    "where the whole interval of every cell lies inside, not reproduced where that of some cell lies outside, "
    "undecided between.",
    "The source prints no standard deviation of its delays, no table and no spread; its figures can be compared only "
    "where its text gives a number. Its hosts were virtual machines with netem; which back end made the delay here "
    "stands among the treatments.",
    "No correction is made for asking several questions.",
)


def page(
    selection: DelaySelection,
    fidelities: Sequence[str],
    questions: Sequence[Question],
    findings: Mapping[str, Mapping[str, Finding]],
    drawn: Sequence[Drawing],
    made: datetime | None = None,
) -> str:
    """The whole page as text."""
    environment = Environment(
        loader=FileSystemLoader([Path(__file__).parent, Path(__file__).parents[3] / "report"]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["attr_show"] = show
    figures = [(title, [d for d in drawn if d.figure == number]) for number, title in FIGURES.items()]
    left_out = [f"{problem.name} ({problem.kind}): {problem.meaning}" for problem in selection.unusable]
    left_out += [f"{run.run_id}: a newer run of the same fidelity is used." for run in selection.older]
    return environment.get_template("page.html.j2").render(
        runs=selection.runs,
        fidelities=fidelities,
        questions=questions,
        findings=findings,
        figures=[(title, held) for title, held in figures if held],
        left_out=left_out,
        method=METHOD,
        signs=SIGNS,
        data_uri=_data_uri,
        made=made or datetime.now(UTC),
        version=__version__,
    )


def show(value: float, unit: str) -> str:
    """A figure for a table; a dash where there is none. `unit`: us, bytes, packets or × (a ratio)."""
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "beyond"
    if unit == "us":
        return show_ms(value)
    return f"{value:.0f}" if unit == "bytes" else f"{value:.2f}"


def _data_uri(drawing: Drawing) -> Markup:
    return Markup("data:image/svg+xml;base64," + base64.b64encode(drawing.svg).decode("ascii"))
