"""Plant and controller driven by the stored runs of the loop and of balance: one row a cell, and what to animate."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from math import nan
from pathlib import Path
from typing import Any

from looplab.experiments.balance import NAME
from looplab.experiments.balance.laws import LQR, Law
from looplab.experiments.balance.replay import (
    FRAME_S,
    SEARCH_S,
    Replayed,
    ReplayedMessage,
    joined,
    read,
    replay,
    replayed,
)
from looplab.experiments.balance.report import theory
from looplab.report.samples import MeasuredRuns, measure
from looplab.report.stored import Selection, StoredRun, read_run
from looplab.spec.experiment import Experiments

LOOP = Experiments({"loop": "looplab.experiments.loop"}, default="loop")


@dataclass(frozen=True)
class ReplayRow:
    """One cell of one run, replayed; `radius` is what theory says of its interval and its median T."""

    scenario: str
    fidelity: str
    run_id: str
    live: bool
    figures: Replayed
    radius: float

    @property
    def stands(self) -> bool:
        return self.figures.extra_ms is not None


def loop_runs(results: Path) -> list[MeasuredRuns]:
    """Return the loop's runs in a folder, each scenario and fidelity with its repeats, broken ones left out."""
    runs = [read_run(folder, LOOP) for folder in sorted(results.iterdir()) if (folder / "run.json").is_file()]
    return measure(Selection([run for run in runs if isinstance(run, StoredRun) and not run.factors]))


def rows(measured: Sequence[MeasuredRuns]) -> list[ReplayRow]:
    """Return a row for each cell of each group's newest run; runs of balance by the controller that they had."""
    table = []
    for m in measured:
        controller, gains = _control(m)
        feedback = Law(controller, 1.0, gains).feedback()
        for cell, trace in read(m.run.path):
            if trace:
                interval_s = float(cell["interval_ms"]) / 1000
                count = theory.intervals_of_delay((cell["T_us"]["p50"] or 0) / 1e6, interval_s)
                radius = theory.spectral_radius(feedback, interval_s, count * interval_s)
                figures = replayed(float(cell["interval_ms"]), int(cell["qos"]), trace, controller, gains)
                live = m.run.experiment == NAME
                table.append(ReplayRow(m.run.scenario, m.run.fidelity, m.run.run_id, live, figures, radius))
    return table


def _control(m: MeasuredRuns) -> tuple[str, tuple[float, ...]]:
    """Return the controller of a run and its gains."""
    return str(m.run.parameters.get("controller", LQR)), tuple(m.run.parameters.get("gains") or ())


@cache
def _frames(
    interval_s: float, trace: tuple[ReplayedMessage, ...], controller: str, gains: tuple[float, ...]
) -> Sequence[tuple[int, int, int]]:
    messages = joined([trace], interval_s, SEARCH_S)
    return replay(messages, Law(controller, interval_s, gains), frame_s=FRAME_S).frames


def figure_of_run(run: StoredRun, name: str, interval_ms: float, qos: int) -> float:
    """Return a figure of one cell of a run: as the live robot had it, of the loop's runs as replayed; NaN if none."""
    cells = (cell for cell in run.document["cells"] if _is(cell, interval_ms, qos))
    figures = next(cells, {}) if run.experiment == NAME else _replayed(run.path, interval_ms, qos)
    return nan if figures.get(name) is None else float(figures[name])


@cache
def _replayed(folder: Path, interval_ms: float, qos: int) -> dict[str, Any]:
    traces = (trace for cell, trace in read(folder) if trace and _is(cell, interval_ms, qos))
    return next((replayed(interval_ms, qos, trace, search=False)._asdict() for trace in traces), {})


def _is(cell: dict[str, Any], interval_ms: float, qos: int) -> bool:
    return float(cell["interval_ms"]) == interval_ms and int(cell["qos"]) == qos


def films(measured: Sequence[MeasuredRuns]) -> Iterator[dict[str, Any]]:
    """Yield what the animation shows of each cell: name, frames of tilt in mrad, way in mm and voltage in dV."""
    for m in measured:
        controller, gains = _control(m)
        for cell, trace in read(m.run.path):
            if trace:
                interval_s = float(cell["interval_ms"]) / 1000
                frames = _frames(interval_s, trace, controller, gains)
                name = f"{m.run.scenario}, {m.run.fidelity}, {cell['interval_ms']:g} ms, QoS {cell['qos']}"
                kept = frames[: round(SEARCH_S / FRAME_S)]
                yield {
                    "name": name,
                    "frames": [list(one) for one in zip(*kept, strict=True)],
                    "live": m.run.experiment == NAME,
                }
