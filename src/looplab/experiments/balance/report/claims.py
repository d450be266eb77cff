"""Does theory say when the robot falls, and which of the thesis's treatments matter for control at all?"""

import math
from collections.abc import Mapping
from functools import partial

from looplab.experiments.balance import COMPARED, NAME
from looplab.experiments.balance.report import balance_cells, theory
from looplab.report import rounds
from looplab.report.printed import table
from looplab.report.rules import directed, mostly, no_gain, stated
from looplab.report.samples import MeasuredRuns, Runs
from looplab.report.statistics import Interval
from looplab.report.verdicts import Claim, Line, Verdict, not_run

INTERVAL_MS = 20.0
# A radius nearer to 1 than this decides nothing: pushes, levels and the jitter of T are no part of the linear loop.
NEAR_ONE = 0.02
# The last message of a cell leaves an interval before its end, and the robot is released after the first.
STOOD = 0.9
# What is compared by run: its unit, and how a reason names it.
COST, UPRIGHT = "cost", "upright_s"
FIGURES = {COST: ("", "the cost of standing"), UPRIGHT: ("s", "the time upright")}


def claims() -> list[Claim]:
    """Return theory's claim, then each treatment's by the cost of standing at 20 ms; by its time, in another family."""
    return [
        rounds.asked("theory", "The robot stands and falls where the linear loop says", [NAME], _theory),
        *(
            Claim(row["name"], row["title"], partial(_judge, row), row["family"], study=row["study"])
            for row in table(__file__)
        ),
    ]


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
    for cell in balance_cells(run):
        total_us, upright_s = cell.statistic("T", "p50"), cell.figure("upright_s")
        if total_us is None or upright_s is None:
            continue
        interval_s = cell.interval_ms / 1000
        radius = theory.spectral_radius(gains, interval_s, theory.intervals_of_delay(total_us / 1e6, interval_s))
        stood = upright_s >= STOOD * cell.length_s(run.run.repetitions)
        agrees.append(None if abs(radius - 1) < NEAR_ONE else stood == (radius < 1))
        lines.append(Line(f"radius {radius:.3f} at {cell}: stood", Interval(upright_s), unit="s"))
    return agrees, lines


def _judge(row: Mapping[str, str], runs: Runs) -> Verdict:
    """Compare a figure of two scenarios; of one with itself, at QoS 0 and at QoS 2. A direction of 0: no gain."""
    study_name, figure, direction = row["study"], row["figure"], int(row["direction"])
    names = [f"{NAME}-{one}" for one in (COMPARED[study_name][0], COMPARED[study_name][-1])]
    if not {*names} <= runs.keys():
        return not_run(f"There is no usable run of both: ./lab study {study_name}")
    unit, what = FIGURES[figure]
    each = [
        (runs[name], partial(_figure_of, figure, qos), f"{name}, QoS {qos}: {what}")
        for name, qos in zip(names, (0, 2 if names[0] == names[1] else 0), strict=True)
    ]
    # The thesis measured no robot that stands.
    named = what.capitalize()
    rule = directed(named, direction, None, claimed=False) if direction else no_gain(named)
    return rounds.compared(row["name"], each, rule, unit)


def _figure_of(figure: str, qos: int, one: MeasuredRuns) -> float:
    """Return a figure of the cell at INTERVAL_MS, NaN if the run has none."""
    found = next((c.figure(figure) for c in balance_cells(one) if c.key == (INTERVAL_MS, qos)), None)
    return math.nan if found is None else found
