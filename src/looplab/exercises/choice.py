"""Which runs an exercise counts: those that its form names, the newest, or those beside one that is named."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from looplab.exercises.exercise import Exercise, WantedRun
from looplab.report.stored import StoredRun, Unusable
from looplab.run.folder import age
from looplab.treatments.judgement import on_off

# The line of a form that names the runs which its answers belong to.
RUNS_LINE = "runs"
# Treatments that a machine may refuse.
POLICY, PERMISSION = "scheduling policy", "may use real-time priority"

Folders = Sequence[StoredRun | Unusable]


def choose(exercise: Exercise, runs: Folders, form: Mapping[str, Any] | None = None) -> dict[str, StoredRun]:
    """Return by handle the sound runs that the form names, else those that come nearest to what is wanted.

    Of several alike the newest is the main run, and the others are those made last before it.
    """
    named = (form or {}).get(RUNS_LINE)
    ids = {str(run_id) for run_id in (named if isinstance(named, list) else [named])}
    made = sorted(run.run_id for run in runs if isinstance(run, StoredRun))

    def rank(wanted: WantedRun, run: StoredRun, main: StoredRun | None) -> tuple[Any, ...]:
        listed = run.run_id in ids
        sound = exercise.keys_of(wanted.handle) <= run.cells.keys() and not faults(exercise, wanted, run, main)[0]
        steps = made.index(run.run_id) - made.index(main.run_id) if main else 0
        return listed and sound, _goods(exercise, wanted, run, main), listed, steps <= 0, -abs(steps), age(run.run_id)

    return _best(exercise.runs, runs, rank)


def choose_neighbours(exercise: Exercise, runs: Folders, named: StoredRun) -> tuple[Exercise, dict[str, StoredRun]]:
    """Return the exercise at the fidelity of `named`, and by handle that run and those made next to it.

    What the exercise lists before it is looked for before it, the others after it.
    """
    main, made = exercise.runs[-1], sorted(run.run_id for run in runs if isinstance(run, StoredRun))
    same = [wanted for wanted in reversed(exercise.runs) if wanted.scenario == named.scenario]
    serves = max(same, key=lambda wanted: _goods(exercise, wanted, named, None))
    shared = serves.fidelity or main.fidelity
    fit = [
        replace(wanted, fidelity=named.fidelity) if (wanted.fidelity or main.fidelity) == shared else wanted
        for wanted in exercise.runs
    ]
    handles = [wanted.handle for wanted in fit]

    def rank(wanted: WantedRun, run: StoredRun, chosen: StoredRun | None) -> tuple[Any, ...]:
        if wanted.handle == serves.handle:
            return (run.run_id == named.run_id,)
        steps = made.index(run.run_id) - made.index(named.run_id)
        expected = (steps < 0) == (handles.index(wanted.handle) < handles.index(serves.handle))
        return _goods(exercise, wanted, run, chosen or named), expected, -abs(steps)

    return replace(exercise, runs=fit), _best(fit, runs, rank)


def _best(
    wanted_runs: Sequence[WantedRun],
    runs: Folders,
    rank: Callable[[WantedRun, StoredRun, StoredRun | None], tuple[Any, ...]],
) -> dict[str, StoredRun]:
    """Return by handle the run that ranks highest, the main run first: the others must fit it."""
    chosen: dict[str, StoredRun] = {}
    main = None
    for wanted in reversed(wanted_runs):
        candidates = [run for run in runs if isinstance(run, StoredRun) and run.scenario == wanted.scenario]
        if candidates:
            chosen[wanted.handle] = max(candidates, key=lambda run: rank(wanted, run, main))
        main = chosen.get(wanted_runs[-1].handle)
    return chosen


def faults(exercise: Exercise, wanted: WantedRun, run: StoredRun, main: StoredRun | None) -> tuple[list[str], bool]:
    """Return why a run cannot count, and whether it is exempt: INVALID because the machine refuses what is wanted."""
    wrong = [why for good, why in _checks(exercise, wanted, run, main) if why and not good]
    invalid_alone = wrong == [_invalid(run)]
    exempt = bool(wanted.needs) and invalid_alone and _priority_alone_refused(run)
    allowed = bool(wanted.allows) and invalid_alone and _unverified(run) == [wanted.allows]
    return ([] if exempt or allowed else wrong), exempt


def _goods(exercise: Exercise, wanted: WantedRun, run: StoredRun, main: StoredRun | None) -> list[bool]:
    return [good for good, _ in _checks(exercise, wanted, run, main)]


def _invalid(run: StoredRun) -> str:
    return f"{run.run_id} is INVALID: {run.invalid_because}"


def _checks(exercise: Exercise, wanted: WantedRun, run: StoredRun, main: StoredRun | None) -> list[tuple[bool, str]]:
    """Return what a run must be, the most important first: whether it is, and the reason if not.

    A missing cell ("") makes another run nearer; the points that refer to it name it.
    """
    fidelity = wanted.fidelity or (main.fidelity if main else "")
    again = command(wanted, fidelity)
    asked = ", ".join(f"{name} = {value}" for name, value in wanted.parameters.items())
    return [
        (
            fidelity in ("", run.fidelity),
            f"{run.run_id} has fidelity {run.fidelity}, but this exercise needs {fidelity}. Repeat it: {again}",
        ),
        (
            all(run.parameters.get(name) == value for name, value in wanted.parameters.items()),
            f"{run.run_id} was not run with {asked}. Repeat it: {again}",
        ),
        (
            not wanted.by or f"./lab {wanted.by} " in str(run.document.get("command_line")),
            f"{run.run_id} was not made by ./lab {wanted.by}, as this exercise needs.",
        ),
        # With another broker, say, an exercise that names none has not been done.
        (all(factor.partition("=")[0].lower() in wanted.parameters for factor in run.factors), ""),
        (exercise.keys_of(wanted.handle) <= run.cells.keys(), ""),
        (run.valid, _invalid(run)),
        (
            main is None or run.same_machine(main),
            f"{run.run_id} is of another machine than {main and main.run_id}: they cannot be compared.",
        ),
        (
            run.repetitions >= exercise.repetitions and run.messages >= exercise.messages,
            f"{run.run_id} has {run.repetitions} x {run.messages} messages; at least "
            f"{exercise.repetitions} x {exercise.messages} are wanted: {again}"
            + (f" --repetitions {exercise.repetitions}" if run.repetitions < exercise.repetitions else ""),
        ),
    ]


def command(wanted: WantedRun, fidelity: str) -> str:
    """Return the command that makes such a run, e.g. `QOS=2 ./lab run scenario1 --fidelity thesis`."""
    set_by_hand = "".join(f"{name.upper()}={_setting(value)} " for name, value in wanted.parameters.items())
    return f"{set_by_hand}./lab run {wanted.scenario}" + (f" --fidelity {fidelity}" if fidelity else "")


def _setting(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(f"{entry:g}" for entry in value)
    return on_off(value)


def priority_refused(run: StoredRun) -> bool:
    """Return whether the machine of this run refused real-time priority that was asked for."""
    return any(_is_refusal(treatment) for treatment in run.document["treatments"])


def _priority_alone_refused(run: StoredRun) -> bool:
    """Return whether a run is INVALID because of refused real-time priority, and for no other reason."""
    faults = [t for t in run.document["treatments"] if t.get("required", True) and not t["verified"]]
    return bool(faults) and all(map(_is_refusal, faults)) and len(run.document["invalid_because"]) == len(faults)


def _unverified(run: StoredRun) -> list[str]:
    """Return what makes a run INVALID: treatments, and "" where something else does."""
    faults = [str(t["what"]) for t in run.document["treatments"] if t.get("required", True) and not t["verified"]]
    return faults if len(run.document["invalid_because"]) == len(faults) else [*faults, ""]


def _is_refusal(treatment: Mapping[str, Any]) -> bool:
    """A policy has a note only if the kernel refused it; without one, a thread was merely overlooked."""
    what = str(treatment["what"])
    if treatment["verified"]:
        return False
    return what.endswith(PERMISSION) or (what.endswith(POLICY) and bool(treatment.get("note")))
