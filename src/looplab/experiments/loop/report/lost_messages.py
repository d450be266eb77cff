"""The claims on lost messages: counts, run by run."""

from collections.abc import Iterable, Sequence

from looplab.experiments.loop import STUDIES
from looplab.experiments.loop.report import MeasuredLoop, cells_of
from looplab.experiments.loop.report.comparison import LOST, Comparing, cells_text, guarded
from looplab.report.cell import Key
from looplab.report.samples import Measured, Runs
from looplab.report.statistics import FEWEST_RUNS
from looplab.report.verdicts import FEW_RUNS, NO_RUN, NOT_REPRODUCED, ONE_RUN, REPRODUCED, UNDECIDED, Claim

# As many messages a cell as published: no loss among fewer proves little.
PUBLISHED_MESSAGES = 1000
LOSING: Key = (10.0, 0)
SOUND_MS = 20.0
FLOODED: Key = (20.0, 0)


def claims() -> list[Claim]:
    """Return the thesis's claims on losses, in the order of its chapters."""
    at_10_ms = "At 10 ms the robot answers fewer requests than it gets; from 20 ms on it answers all"
    return [
        Claim("loss-10-ms", at_10_ms, _at_10_ms),
        Claim("flood-qos-0", "Under the MQTT flood, QoS 0 loses messages or the connection", _flood_qos_0),
        Claim("flood-qos-1-2", "Under the MQTT flood, QoS 1 and 2 lose nothing", _flood_qos_1_2),
    ]


def _at_10_ms(runs: Runs) -> Comparing:
    """Judge whether each run loses at 10 ms and not at 20 ms and above: the second part is as much of the claim."""
    measured = _with_cell(runs, "loss-10-ms", LOSING)
    if not measured:
        return Comparing(NO_RUN, f"No run of {', '.join(STUDIES['loss-10-ms'])} has a cell at 10 ms and QoS 0.")
    each = [cells_of(one) for m in measured for one in m.runs if LOSING in cells_of(one)]
    here = [cells[LOSING].lost for cells in each]
    above = [[cell.lost for (ms, qos), cell in cells.items() if ms >= SOUND_MS and qos == 0] for cells in each]
    if above_lost := sum(map(sum, above)):
        outcome, why = NOT_REPRODUCED, f" At 20 ms and above {above_lost} are lost, too: not a matter of 10 ms."
    elif not all(above):
        outcome, why = UNDECIDED, " Whether 20 ms and above lose nothing was not measured."
    elif all(here):
        outcome, why = REPRODUCED, " At 20 ms and above nothing is lost."
    elif any(here):
        outcome, why = UNDECIDED, f" {sum(map(bool, here))} of {len(here)} runs lose any."
    else:
        why = _too_few(cells_of(m)[LOSING] for m in measured)
        outcome = UNDECIDED if why else NOT_REPRODUCED
    return _verdict(measured, LOSING, outcome, why, _merged(measured))


def _flood_qos_0(runs: Runs) -> Comparing:
    """Judge whether in one scenario at least every run lost a message or the connection."""
    measured = _with_cell(runs, "flood-qos-0", FLOODED)
    if not measured:
        return Comparing(NO_RUN, "No run of scenario7 or scenario8 has a cell at 20 ms and QoS 0.")
    each = [[cell for one in m.runs if (cell := cells_of(one).get(FLOODED))] for m in measured]
    lost = [[cell.lost + cell.disconnects > 0 for cell in cells] for cells in each]
    if any(map(all, lost)):
        outcome, why = REPRODUCED, ""
    elif any(map(any, lost)):
        outcome, why = UNDECIDED, f" {sum(map(sum, lost))} of {sum(map(len, lost))} runs show it."
    else:
        why = _too_few(cells_of(m)[FLOODED] for m in measured)
        outcome = UNDECIDED if why else NOT_REPRODUCED
    return _verdict(measured, FLOODED, outcome, why)


def _flood_qos_1_2(runs: Runs) -> Comparing:
    measured = runs.get("scenario8")
    cells = {key: cell for key, cell in cells_of(measured).items() if key[1] > 0} if measured else {}
    if measured is None or not cells:
        return Comparing(NO_RUN, "No run of scenario8 has cells of QoS 1 or 2.")
    merged = sum(cell.merged for cell in cells.values())
    lost = sum(cell.lost for cell in cells.values()) - merged
    why = "" if lost else _too_few(cells.values())
    outcome = NOT_REPRODUCED if lost else UNDECIDED if why else REPRODUCED
    if merged:
        why += f" {merged} that the robot's framing merged are not counted: they were lost behind MQTT."
    behind = "QoS ends at the bridge: what is lost behind it, no QoS brings back."
    text = ", ".join(f"QoS {cell.qos}: {_counted(cell)}" for cell in cells.values()) + "."
    verdict = Comparing(outcome, text + why, cells=cells_text(list(cells)), judged=LOST)
    verdict.beside = [behind, *_merged([measured])] if lost else []
    return guarded(_by_runs(verdict, [measured]), [measured])


def _with_cell(runs: Runs, claim: str, key: Key) -> list[Measured]:
    """Return the runs that a claim is about, of those with such a cell."""
    return [m for name in STUDIES[claim] if (m := runs.get(name)) and key in cells_of(m)]


def _verdict(measured: Sequence[Measured], key: Key, outcome: str, why: str, beside: Iterable[str] = ()) -> Comparing:
    text = "; ".join(f"{m.run.scenario}: {_counted(cells_of(m)[key])}" for m in measured) + "."
    verdict = Comparing(outcome, text + why, beside=list(beside), cells=cells_text([key]), judged=LOST)
    return guarded(_by_runs(verdict, measured), measured)


def _by_runs(verdict: Comparing, measured: Sequence[Measured]) -> Comparing:
    """Give no verdict where no scenario has enough runs: what a single run loses may be that run's."""
    most = max(len(m.runs) for m in measured)
    if most < FEWEST_RUNS:
        verdict.outcome = ONE_RUN if most == 1 else FEW_RUNS
        verdict.reason += f" For a verdict, {FEWEST_RUNS} runs are the fewest."
    return verdict


def _counted(cell: MeasuredLoop) -> str:
    """Return what a cell lost, in words; of several runs also how much identical ones differ."""
    lost = [one.lost for one in cell.runs]
    runs = f" in {len(lost)} runs, {min(lost)} to {max(lost)} in each" if lost else ""
    broken = f", connection lost {cell.disconnects} times" if cell.disconnects else ""
    because = f" ({cell.causes})" if cell.causes else ""
    return f"{cell.lost} of {cell.sent} lost{because}{broken}{runs}"


def _too_few(cells: Iterable[MeasuredLoop]) -> str:
    """Return why cells have too few messages to rule losses out, "" if they have as many as published."""
    fewest = min(cell.sent for cell in cells)
    if fewest >= PUBLISHED_MESSAGES:
        return ""
    return f" {fewest} messages in a cell are fewer than the thesis's {PUBLISHED_MESSAGES}: too few to rule it out."


def _merged(measured: Sequence[Measured]) -> list[str]:
    """Return what framing did; the bridge counts since its start, which may be several runs ago."""
    notes = []
    for m in measured:
        counts = (m.run.document.get("bridge") or {}).get("counts")
        if isinstance(counts, dict) and isinstance(merged := counts.get("merged"), int):
            notes.append(
                f"{m.run.scenario}: framing {m.run.parameters.get('robot_framing')}; since its start, the bridge "
                f"merged {merged} requests into another's answer."
            )
    return notes
