"""Other causes that the runs themselves show, for the notes beside a verdict."""

from collections.abc import Mapping

from looplab.experiments.loop.fitted import FITTED_CONSTANTS, ROBOT, fitted
from looplab.experiments.loop.report import cells_of
from looplab.report.samples import Measured, Runs

_PRIORITY = {
    "broker-priority": ("scenario4",),
    "broker-priority-no-arduino": ("scenario6",),
    "client-priority": ("scenario4", "scenario5"),
}
_STRESSED = {
    "stress": "scenario2",
    "stress-no-arduino": "scenario3",
    "broker-priority": "scenario4",
    "broker-priority-no-arduino": "scenario6",
    "client-priority": "scenario5",
}
# Claims on messages that merged, and on response, which holds R.
_WITH_ROBOT = ("loss-10-ms", "flood-qos-0", "flood-qos-1-2", "client-priority")


def beside(claim: str, fidelity: str, runs: Mapping[str, Runs]) -> list[str]:
    """Return the notes beside the verdict on `claim` at `fidelity`; `runs` holds those of every fidelity."""
    here = runs.get(fidelity, {})
    notes = [note for name in _PRIORITY.get(claim, ()) if name in here for note in _priority(here[name])]
    if claim in _STRESSED and _STRESSED[claim] in here:
        notes += _stress_reached(here[_STRESSED[claim]])
    if claim == "qos-2":
        notes += _nodelay(fidelity, runs)
    if claim == "loss-10-ms":
        notes += _framing(fidelity, runs)
    return [*notes, *_fitted(claim, here)]


def _fitted(claim: str, runs: Runs) -> list[str]:
    """Name the fitted constants that the verdict depends on."""
    found = {constant for m in runs.values() for constant in fitted(m.run.parameters)}
    if claim not in _WITH_ROBOT:
        found.discard(ROBOT)
    return [f"Fitted: {constant}" for constant in FITTED_CONSTANTS if constant in found]


def _priority(measured: Measured) -> list[str]:
    notes = []
    for role, wanted in (("broker", "priority_broker"), ("controller", "priority_controller")):
        if not measured.run.parameters.get(wanted):
            continue
        found = measured.run.treatment(f"{role} scheduling policy")
        if found is None:
            continue
        policy = str(found.get("found"))
        if "SCHED_FIFO" in policy:
            notes.append(f"{measured.run.scenario}: real-time priority is applied, the {role} was found at {policy}.")
        else:
            notes.append(
                f"{measured.run.scenario}: the flags permit real-time priority and apply none, every thread of the "
                f"{role} was found at {policy}. Whatever differs here is not priority."
            )
    return notes


def _stress_reached(measured: Measured) -> list[str]:
    """Bridge and robot take the place of other machines. If the load reached them, it is in R and O."""
    reached = []
    for role in ("bridge", "robot"):
        found = measured.run.treatment(f"{role} apart from the load")
        if found is not None and not found.get("verified"):
            reached.append(role)
    if not reached:
        return []
    return [
        f"{measured.run.scenario}: the {' and the '.join(reached)} could not be kept apart from the load on this "
        "machine; on the published set-up the stress did not reach them."
    ]


def _nodelay(fidelity: str, runs: Mapping[str, Runs]) -> list[str]:
    """How much of QoS 1 and 2 is Nagle and delayed acknowledgements: needs scenario 8 of both fidelities."""
    if fidelity != "corrected":
        return []
    off, on = (runs.get(name, {}).get("scenario8") for name in ("thesis", "corrected"))
    if off is None or on is None:
        return ["To see what TCP_NODELAY has to do with it, run scenario8 with --fidelity thesis and corrected."]
    nodelay = [m.run.parameters.get("tcp_nodelay") for m in (off, on)]
    if nodelay[0] == nodelay[1] or off.run.machine != on.run.machine:
        return []
    notes = []
    for key in sorted(set(cells_of(off)) & set(cells_of(on))):
        slow, fast = (cells_of(m)[key].statistic("O", "p50") for m in (off, on))
        if key[1] and slow and fast:
            part = (
                f": {1 - fast / slow:.0%} of it was Nagle and delayed acknowledgements, not QoS" if fast < slow else ""
            )
            notes.append(
                f"QoS {key[1]:g} at {key[0]:g} ms: the median of O is {slow / 1000:.1f} ms with TCP_NODELAY off and "
                f"{fast / 1000:.1f} ms with it on{part}."
            )
    return notes


def _framing(fidelity: str, runs: Mapping[str, Runs]) -> list[str]:
    if fidelity != "corrected":
        return []
    lost: dict[str, int] = {}
    for name in ("thesis", "corrected"):
        held = [m for m in runs.get(name, {}).values() if m.run.parameters.get("command") == "T"]
        cells = [cells_of(m)[10.0, 0] for m in held if (10.0, 0) in cells_of(m)]
        if cells:
            lost[name] = sum(cell.lost for cell in cells)
    if len(lost) < 2:
        return ["To see what framing has to do with it, run the same scenario with --fidelity thesis and corrected."]
    if not any(lost.values()):
        return [
            "Nothing was lost with either framing. Framing burst merges answers only where they meet: with jitter on "
            "the link, or requests faster than the robot answers."
        ]
    return [
        f"Lost at 10 ms: {lost['thesis']} with framing burst, {lost['corrected']} with framing line; "
        "the runs differ in pacing, too, unless PACING was set."
    ]
