"""From the printed set-up to the corrected one, a property at a time: what each step does to O.

O is shown twice: as the client stamps it, and at its packets or socket, where a late receiver does not count.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from looplab.experiments.loop.parameters import LoopParameters, read_parameters
from looplab.experiments.loop.report import MeasuredLoop, cells_of
from looplab.experiments.loop.studies import STEPS, VARIANTS
from looplab.report.samples import MeasuredRuns
from looplab.spec.reader import as_text, of_fidelity

STUDY = "clients"
FEWEST_STEPS = 2


@dataclass(frozen=True)
class Level:
    """Mean O of a step at one QoS in us, the mean of its runs."""

    client_us: float
    packets_us: float


@dataclass(frozen=True)
class SetupStep:
    """One step of a scenario: its runs, and its levels by QoS; `changes_us` are those from the step before."""

    name: str
    runs: int
    levels: Mapping[int, Level]
    changes_us: Mapping[int, float]


def steps(measured: Sequence[MeasuredRuns]) -> dict[str, list[SetupStep]]:
    """Return the steps of each scenario that has runs of several, in their order."""
    names = {_settings(read_parameters({"SCENARIO": "x", **own})): name for name, own in VARIANTS[STUDY].items()}
    runs: dict[str, dict[str, MeasuredRuns]] = {}
    for m in measured:
        if name := names.get(_settings(m.run.parameters)):
            runs.setdefault(m.run.scenario, {}).setdefault(name, m)
    return {scenario: list(_steps(own)) for scenario, own in sorted(runs.items()) if len(own) >= FEWEST_STEPS}


def _steps(own: Mapping[str, MeasuredRuns]) -> Iterator[SetupStep]:
    before: Mapping[int, Level] = {}
    for name in filter(own.__contains__, STEPS):
        cells = [cell for one in own[name].runs for cell in cells_of(one).values() if cell.O.get("n")]
        levels = {qos: _level([cell for cell in cells if cell.qos == qos]) for qos in sorted({c.qos for c in cells})}
        changes = {qos: level.client_us - before[qos].client_us for qos, level in levels.items() if qos in before}
        yield SetupStep(name, len(own[name].runs), levels, changes)
        before = levels


def _level(cells: Sequence[MeasuredLoop]) -> Level:
    printed = [bool(cell.client_O.get("n")) for cell in cells]
    client = [cell.client_O["avg"] if own else cell.O["avg"] for cell, own in zip(cells, printed, strict=True)]
    packets = [
        cell.O if own or not cell.transport_O.get("n") else cell.transport_O
        for cell, own in zip(cells, printed, strict=True)
    ]
    return Level(fmean(client), fmean(one["avg"] for one in packets))


def _settings(parameters: LoopParameters | Mapping[str, object]) -> tuple[str, ...]:
    """Return the properties that the steps change; a run of before there was one is as the thesis."""
    given = parameters if isinstance(parameters, Mapping) else parameters.as_json()
    factors = {n: one for n, one in LoopParameters.params().items() if isinstance(one.default, Mapping)}
    return tuple(as_text(given.get(name, of_fidelity(one.default, "thesis"))) for name, one in factors.items())
