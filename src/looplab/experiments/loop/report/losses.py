"""The claims on lost messages: counts, run by run."""

from collections.abc import Mapping, Sequence

from looplab.experiments.loop.report import MeasuredLoop, cells_of
from looplab.experiments.loop.report.comparisons import Comparing, guarded, said
from looplab.experiments.loop.studies import STUDIES
from looplab.report.cell import Key
from looplab.report.samples import Measured, Runs
from looplab.report.statistics import FEWEST_RUNS
from looplab.report.stored import StoredRun
from looplab.report.verdicts import (
    FEW_RUNS,
    NO_RUN,
    NOT_REPRODUCED,
    ONE_RUN,
    REPRODUCED,
    UNDECIDED,
    Claim,
)

# As many messages a cell as published: no loss among fewer proves little.
PUBLISHED_MESSAGES = 1000
LOSING_MS = 10.0
SOUND_MS = 20.0
FLOODED: Key = (20.0, 0)


def claims() -> list[Claim]:
    """Return the thesis's claims on losses, in the order of its chapters."""
    return [
        Claim(
            "loss-10-ms",
            "At 10 ms the robot answers fewer requests than it gets; from 20 ms on it answers all",
            _at_10_ms,
        ),
        Claim("flood-qos-0", "Under the MQTT flood, QoS 0 loses messages or the connection", _flood_qos_0),
        Claim("flood-qos-1-2", "Under the MQTT flood, QoS 1 and 2 lose nothing", _flood_qos_1_2),
    ]


def _at_10_ms(runs: Runs) -> Comparing:
    """Judge whether each run loses at 10 ms and not at 20 ms and above: the second part is as much of the claim."""
    key = (LOSING_MS, 0)
    held = [m for name in STUDIES["loss-10-ms"] if (m := runs.get(name)) and key in cells_of(m)]
    if not held:
        named = ", ".join(STUDIES["loss-10-ms"])
        return Comparing(NO_RUN, f"No run of {named} has a cell at 10 ms and QoS 0.")
    here = [cells_of(one)[key].lost for m in held for one in m.runs if key in cells_of(one)]
    above = [_above(one) for m in held for one in m.runs if key in cells_of(one)]
    text = "; ".join(f"{m.run.scenario}: {_counted(cells_of(m)[key])}" for m in held) + "."
    enough = min(cells_of(m)[key].sent for m in held) >= PUBLISHED_MESSAGES
    if above_lost := sum(lost or 0 for lost in above):
        outcome, why = NOT_REPRODUCED, f" At 20 ms and above {above_lost} are lost, too: not a matter of 10 ms."
    elif None in above:
        outcome, why = UNDECIDED, " Whether 20 ms and above lose nothing was not measured."
    elif all(here):
        outcome, why = REPRODUCED, " At 20 ms and above nothing is lost."
    elif not any(here):
        outcome, why = (NOT_REPRODUCED, "") if enough else (UNDECIDED, _few(held, key))
    else:
        outcome, why = UNDECIDED, f" {sum(map(bool, here))} of {len(here)} runs lose any."
    verdict = Comparing(outcome, text + why, cells=said([key]), beside=_merged(held))
    return guarded(_by_runs(verdict, held), held)


def _flood_qos_0(runs: Runs) -> Comparing:
    """Judge whether in one scenario at least every run lost a message or the connection."""
    held = [m for name in STUDIES["flood-qos-0"] if (m := runs.get(name)) and FLOODED in cells_of(m)]
    if not held:
        return Comparing(NO_RUN, "No run of scenario7 or scenario8 has a cell at 20 ms and QoS 0.")
    found = {
        m.run.scenario: [cell.lost + _broken(cell) > 0 for one in m.runs if (cell := cells_of(one).get(FLOODED))]
        for m in held
    }
    text = "; ".join(f"{m.run.scenario}: {_counted(cells_of(m)[FLOODED])}" for m in held) + "."
    if any(all(lost) for lost in found.values()):
        outcome, why = REPRODUCED, ""
    elif any(map(any, found.values())):
        seen = sum(sum(lost) for lost in found.values())
        outcome, why = UNDECIDED, f" {seen} of {sum(map(len, found.values()))} runs show it."
    elif min(cells_of(m)[FLOODED].sent for m in held) >= PUBLISHED_MESSAGES:
        outcome, why = NOT_REPRODUCED, ""
    else:
        outcome, why = UNDECIDED, _few(held, FLOODED)
    return guarded(_by_runs(Comparing(outcome, text + why, cells=said([FLOODED])), held), held)


def _flood_qos_1_2(runs: Runs) -> Comparing:
    measured = runs.get("scenario8")
    cells = {key: cell for key, cell in cells_of(measured).items() if key[1] > 0} if measured else {}
    if measured is None or not cells:
        return Comparing(NO_RUN, "No run of scenario8 has cells of QoS 1 or 2.")
    merged = sum(_merged_in(cell) for cell in cells.values())
    lost = sum(cell.lost for cell in cells.values()) - merged
    text = ", ".join(f"QoS {cell.qos}: {_counted(cell)}" for cell in cells.values()) + "."
    if lost:
        outcome, why = NOT_REPRODUCED, ""
    elif min(cell.sent for cell in cells.values()) >= PUBLISHED_MESSAGES:
        outcome, why = REPRODUCED, ""
    else:
        outcome, why = UNDECIDED, _few([measured], min(cells, key=lambda key: cells[key].sent))
    if merged:
        why += f" {merged} that the robot's framing merged are not counted: they were lost behind MQTT."
    verdict = Comparing(outcome, text + why, cells=said(list(cells)))
    if lost:
        verdict.beside = ["QoS ends at the bridge: what is lost behind it, no QoS brings back.", *_merged([measured])]
    return guarded(_by_runs(verdict, [measured]), [measured])


def _by_runs(verdict: Comparing, held: Sequence[Measured]) -> Comparing:
    """Give no verdict where no scenario has enough runs: what a single run loses may be that run's."""
    most = max(len(m.runs) for m in held)
    if most < FEWEST_RUNS:
        verdict.outcome = ONE_RUN if most == 1 else FEW_RUNS
        verdict.reason += f" For a verdict, {FEWEST_RUNS} runs are the fewest."
    return verdict


def _counted(cell: MeasuredLoop) -> str:
    """Return what a cell lost, in words; of several runs also how much identical ones differ."""
    lost = [one.lost for one in cell.runs]
    runs = f" in {len(lost)} runs, {min(lost)} to {max(lost)} in each" if lost else ""
    broken = f", connection lost {_broken(cell)} times" if _broken(cell) else ""
    causes = [f"{count} {cause.replace('_', ' ')}" for cause, count in _causes(cell).items() if count]
    because = f" ({', '.join(causes)})" if causes else ""
    return f"{cell.lost} of {cell.sent} lost{because}{broken}{runs}"


def _above(one: Measured) -> int | None:
    """Return how many messages a run lost at 20 ms and above; None where it has no such cell."""
    cells = [cell for (interval, qos), cell in cells_of(one).items() if interval >= SOUND_MS and qos == 0]
    return sum(cell.lost for cell in cells) if cells else None


def _broken(cell: MeasuredLoop) -> int:
    return cell.disconnects


def _causes(cell: MeasuredLoop) -> Mapping[str, int]:
    """Return the lost messages of a cell by cause, {} if the run did not record it."""
    found: Mapping[str, int] = cell.lost_by
    return found


def _merged_in(cell: MeasuredLoop) -> int:
    return int(_causes(cell).get("merged", 0))


def _few(held: Sequence[Measured], key: Key) -> str:
    fewest = min(cells_of(m)[key].sent for m in held)
    return f" {fewest} messages in a cell are fewer than the thesis's {PUBLISHED_MESSAGES}: too few to rule it out."


def _merged(held: Sequence[Measured]) -> list[str]:
    """Return what framing did; the bridge counts since its start, which may be several runs ago."""
    return [
        f"{m.run.scenario}: framing {m.run.parameters.get('robot_framing')}; since its start, the bridge merged "
        f"{count} requests into another's answer."
        for m in held
        if (count := _bridge_merged(m.run)) is not None
    ]


def _bridge_merged(run: StoredRun) -> int | None:
    bridge = run.document.get("bridge")
    counts = bridge.get("counts") if isinstance(bridge, dict) else None
    value = counts.get("merged") if isinstance(counts, dict) else None
    return value if isinstance(value, int) else None
