"""Does theory say when the robot falls, and which of the thesis's treatments matter for control at all?"""

from looplab.experiments.balance.report import cells_of, theory
from looplab.report.rules import Answer, mostly, stated
from looplab.report.samples import MeasuredRuns
from looplab.report.statistics import Interval
from looplab.report.verdicts import Line, Verdict, not_run

# A radius nearer to 1 than this decides nothing: pushes, levels and the jitter of T are no part of the linear loop.
NEAR_ONE = 0.02
# The last message of a cell leaves an interval before its end, and the robot is released after the first.
STOOD = 0.9


def answers() -> dict[str, Answer]:
    """Return what answers theory's claim; the others compare a figure at 20 ms."""
    return {"theory": _theory}


def _theory(run: MeasuredRuns) -> Verdict:
    """Compare each cell's fall with the spectral radius at its interval and median T: run by run, all cells of one."""
    by_run = [_agrees(one)[0] for one in run.runs]
    agrees, lines = _agrees(run)
    if not lines:
        return not_run("The run has no cell with an answer.")
    words = f"{sum(one is True for one in agrees)} of {len(agrees)} cells do what the spectral radius says"
    holds = [all(known) for own in by_run if (known := [one for one in own if one is not None])]
    return stated([mostly(holds)], f"{words}; it falls from 1 on.", lines, runs=len(holds))


def _agrees(run: MeasuredRuns) -> tuple[list[bool | None], list[Line]]:
    """Return whether each cell does what theory says (None: it is near the edge), and its line."""
    gains = theory.gains_of_run(run.run.parameters)
    agrees: list[bool | None] = []
    lines: list[Line] = []
    for cell in cells_of(run):
        total_us, upright_s = cell.statistic("T", "p50"), cell.figure("upright_s")
        if total_us is None or upright_s is None:
            continue
        interval_s = cell.interval_ms / 1000
        radius = theory.spectral_radius(gains, interval_s, theory.intervals_of_delay(total_us / 1e6, interval_s))
        stood = upright_s >= STOOD * cell.length_s(run.run.repetitions)
        agrees.append(None if abs(radius - 1) < NEAR_ONE else stood == (radius < 1))
        lines.append(Line(f"radius {radius:.3f} at {cell}: stood", Interval(upright_s), unit="s"))
    return agrees, lines
