"""Plant and controller driven by the stored runs of the loop and of balance: one row a cell, and what to animate."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from looplab.experiments.balance import NAME
from looplab.experiments.balance.replay import Frames, Replayed, read, replayed
from looplab.experiments.balance.report import theory
from looplab.report.samples import measure
from looplab.report.stored import Selection, StoredRun, read_run
from looplab.spec.experiment import Experiments

LOOP = Experiments({"loop": "looplab.experiments.loop"}, default="loop")


@dataclass(frozen=True)
class ReplayRow:
    """One cell of one run, replayed; `radius` is what theory says of its interval and its median T."""

    run: StoredRun
    figures: Replayed
    frames: Frames
    radius: float

    @property
    def stands(self) -> bool:
        return self.figures.extra_ms is not None

    @property
    def live(self) -> bool:
        return self.run.experiment == NAME

    @property
    def film(self) -> dict[str, Any]:
        """What the animation shows: its name, and frames of tilt in mrad, way in mm and voltage in dV."""
        cell = f"{self.figures.interval_ms:g} ms, QoS {self.figures.qos}"
        name = f"{self.run.scenario}, {self.run.fidelity}, {cell}"
        return {"name": name, "frames": list(zip(*self.frames, strict=True))}

    @property
    def line(self) -> dict[str, object]:
        """Its line of a CSV file."""
        names = {name: getattr(self.run, name) for name in ("scenario", "fidelity", "run_id")}
        extra = self.figures.extra_ms if self.stands else "falls"
        return {**names, **self.figures._asdict(), "extra_ms": extra, "spectral_radius": round(self.radius, 4)}


@cache
def rows(runs: tuple[StoredRun, ...]) -> list[ReplayRow]:
    """Return a row for each cell of runs of balance, by the gains that they had, and of the loop's runs beside them."""
    loop = _loop_runs(runs[0].path.parent) if runs else ()
    return [row for run in (*runs, *loop) for row in _rows(run)]


def _loop_runs(results: Path) -> Iterable[StoredRun]:
    """Return the loop's runs in a folder, the newest of each scenario and fidelity, broken ones left out."""
    runs = [read_run(folder, LOOP) for folder in sorted(results.iterdir()) if (folder / "run.json").is_file()]
    return (m.run for m in measure(Selection([run for run in runs if isinstance(run, StoredRun) and not run.factors])))


def _rows(run: StoredRun) -> Iterator[ReplayRow]:
    gains = theory.gains_of_run(run.parameters)
    for cell, trace in read(run.path):
        if trace:
            interval_s = float(cell["interval_ms"]) / 1000
            count = theory.intervals_of_delay((cell["T_us"]["p50"] or 0) / 1e6, interval_s)
            radius = theory.spectral_radius(gains, interval_s, count * interval_s)
            yield ReplayRow(run, *replayed(float(cell["interval_ms"]), int(cell["qos"]), trace, gains), radius)
