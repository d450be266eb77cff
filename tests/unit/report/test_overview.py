"""The figure of all claims, as matplotlib lays it out."""

from itertools import pairwise

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from looplab.report import overview
from looplab.report.statistics import Interval


@pytest.mark.parametrize("ends", [(-0.5, 1.0), (-0.2, 0.6), (-0.1, 15.0), (-0.9, 15.0), (-0.3, 1.7), (0.0, 0.1)])
def test_labels_of_the_axis_do_not_touch(ends: tuple[float, float]) -> None:
    mark = overview.ClaimMark("A claim", "thesis", "reproduced", Interval(sum(ends) / 2, *ends), ends[1])
    figure = Figure((overview.WIDTH_INCHES, 2.0))
    FigureCanvasAgg(figure)
    axes = figure.add_axes((overview.LEFT, 0.3, overview.RIGHT - overview.LEFT, 0.5))
    overview.Overview([mark], "change")._put(axes)
    figure.canvas.draw()
    boxes = [label.get_window_extent() for label in axes.get_xticklabels()]
    assert len(boxes) >= 3
    assert all(left.x1 + 4 < right.x0 for left, right in pairwise(boxes))
    assert "no change" in [label.get_text() for label in axes.get_xticklabels()]
