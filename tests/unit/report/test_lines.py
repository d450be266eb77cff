"""Plots of named series: what they draw is also said in words."""

import pytest

from looplab.report.drawing import LinePlot, Plot, PlotPoint

SERIES = {"one": [PlotPoint(0, 0.5), PlotPoint(1, 0.25, 0.05, 0.1)], "two": [PlotPoint(0, 0.125)]}


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (
            LinePlot(SERIES, "place", "share", ticks=("0–20", "10–10"), percent=True),
            "share over place. one: 50.0% at 0–20, 25.0% at 10–10; two: 12.5% at 0–20.",
        ),
        (
            LinePlot(SERIES, "devices", "ms", levels=(1, 2), slopes={"one way": 1}, best={"two": 0}),
            "ms over devices. one: 0.5 at 0, 0.25 at 1; two: 0.125 at 0. Best of two: 0.",
        ),
    ],
)
def test_a_plot_says_what_it_draws(lines: LinePlot, text: str) -> None:
    assert str(lines) == text
    drawing = Plot("name", "5", "thesis", "caption", text, lines.put).draw()
    svg = drawing.svg.decode()
    for label in (*lines.series, *lines.ticks, *lines.slopes, lines.x_label, lines.y_label):
        assert f">{label}<" in svg, label
