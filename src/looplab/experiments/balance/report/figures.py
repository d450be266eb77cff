"""Draw how long the robot stood beside what theory says."""

from dataclasses import replace

from looplab.experiments.balance.report import cells_of, theory
from looplab.report.drawing import LinePlot, Plot, PlotPoint
from looplab.report.samples import MeasuredRuns, Runs

TITLES = {"Where it falls": ("stands",)}
_CAPTION = "Share of the cell that the robot stood, and spectral radius of the linear loop: it falls from 1 on."


def sketches(runs: Runs) -> list[Plot]:
    """Return the figure of each scenario of balance."""
    return [plot for run in runs.values() for plot in _stands(run)]


def _stands(run: MeasuredRuns) -> list[Plot]:
    series: dict[str, list[PlotPoint]] = {}
    for cell in cells_of(run):
        upright_s = cell.figure("upright_s")
        if upright_s is not None:
            share = min(1.0, upright_s / cell.length_s(run.run.repetitions))
            series.setdefault(f"stood, QoS {cell.qos}", []).append(PlotPoint(cell.interval_ms, share))
    if not series:
        return []
    gains = theory.gains_of_run(run.run.parameters)
    longest = max(point.x for points in series.values() for point in points)
    steps = [longest * at / 10 for at in range(1, 11)]
    series["spectral radius"] = [PlotPoint(ms, theory.spectral_radius(gains, ms / 1000)) for ms in steps]
    lines = LinePlot(series, "interval in ms", "share of the cell; spectral radius", levels=(1.0,))
    [plot] = lines.plot(run, f"stands_{run.run.scenario}", f"{run.run.scenario}. {_CAPTION}")
    return [replace(plot, figure="stands")]
