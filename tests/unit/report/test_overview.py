"""The figure of all claims: its axis ends beside its marks."""

from matplotlib.figure import Figure

from looplab.report.overview import overview
from looplab.report.statistics import Interval
from looplab.report.verdicts import Claim, Printed, Verdict, not_run


def test_the_axis_ends_beside_the_marks() -> None:
    claims = [Claim(name, name, lambda _runs: not_run("")) for name in ("one run", "sure", "published")]
    shares = (Interval(7.9), Interval(0.02, -0.01, 0.05), Interval(0.5))
    verdicts = [(one, {"thesis": Verdict(share=share)}) for one, share in zip(claims, shares, strict=True)]
    verdicts[2][1]["thesis"].published = Printed(1.0, 1.57)
    [plot] = overview("loop", verdicts, "")
    axes = Figure().add_axes(plot.place)
    plot.put(axes)
    low, high = axes.get_xlim()
    assert 0.4 < low < 0.5
    assert 8.9 < high < 10
