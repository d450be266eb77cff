"""Which runs an exercise counts: those that its form names, the newest, or those beside one that is named."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from looplab.exercises.exercise import Exercise, WantedRun
from looplab.report.stored import StoredRun, Unusable
from looplab.run.folder import age
from looplab.spec.reader import as_text

# The line of a form that names the runs which its answers belong to.
RUNS_LINE = "runs"
# Treatments that a machine may refuse.
POLICY, PERMISSION = "scheduling policy", "may use real-time priority"

Folders = Sequence[StoredRun | Unusable]


def choose(
    exercise: Exercise, runs: Folders, form: Mapping[str, Any] | None = None, named: StoredRun | None = None
) -> dict[str, StoredRun]:
    """Return by handle the sound runs that the form names, else those that come nearest to what is wanted.

    Of several alike the newest is the main run, and the others are those made last before it. If a run is `named`, it
    counts, and of several alike those made next to it.
    """
    of_form = (form or {}).get(RUNS_LINE)
    ids = {str(run_id) for run_id in (of_form if isinstance(of_form, list) else [of_form])}
    stored = [run for run in runs if isinstance(run, StoredRun)]
    made = sorted(run.run_id for run in stored)
    chosen: dict[str, StoredRun] = {}
    main = None
    if named:
        same = [wanted for wanted in reversed(exercise.runs) if wanted.scenario == named.scenario]
        chosen[max(same, key=lambda wanted: _goods(exercise, wanted, named, None)).handle] = named

    def rank(wanted: WantedRun, run: StoredRun) -> tuple[Any, ...]:
        listed = run.run_id in ids
        sound = exercise.keys_of(wanted.handle) <= run.cells.keys() and not faults(exercise, wanted, run, main)[0]
        beside = main or named
        steps = made.index(run.run_id) - made.index(beside.run_id) if beside else 0
        expected = (steps > 0) == (main is None)
        return listed and sound, _goods(exercise, wanted, run, beside), listed, expected, -abs(steps), age(run.run_id)

    # The main run is the first to be chosen: the others must fit it.
    for wanted in reversed(exercise.runs):
        candidates = [run for run in stored if run.scenario == wanted.scenario]
        if candidates and wanted.handle not in chosen:
            chosen[wanted.handle] = max(candidates, key=partial(rank, wanted))
        main = chosen.get(exercise.runs[-1].handle)
    return chosen


def faults(exercise: Exercise, wanted: WantedRun, run: StoredRun, main: StoredRun | None) -> tuple[list[str], bool]:
    """Return why a run cannot count, and whether it is exempt: INVALID because the machine refuses what is wanted."""
    wrong = [why for good, why in _checks(exercise, wanted, run, main) if why and not good]
    unverified = [t for t in run.document["treatments"] if t.get("required", True) and not t["verified"]]
    # Treatments alone make it INVALID.
    alone = wrong == [_invalid(run)] and bool(unverified) and len(run.document["invalid_because"]) == len(unverified)
    exempt = alone and bool(wanted.needs) and all(map(_is_refusal, unverified))
    allowed = alone and [one["what"] for one in unverified] == [wanted.allows]
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
    settings = {name.upper(): as_text(value).replace(" ", ",") for name, value in wanted.parameters.items()}
    set_by_hand = "".join(f"{name}={value} " for name, value in settings.items())
    return f"{set_by_hand}./lab run {wanted.scenario}" + (f" --fidelity {fidelity}" if fidelity else "")


def priority_refused(run: StoredRun) -> bool:
    """Return whether the machine of this run refused real-time priority that was asked for."""
    return any(_is_refusal(treatment) for treatment in run.document["treatments"])


def _is_refusal(treatment: Mapping[str, Any]) -> bool:
    """A policy has a note only if the kernel refused it; without one, a thread was merely overlooked."""
    what = str(treatment["what"])
    if treatment["verified"]:
        return False
    return what.endswith(PERMISSION) or (what.endswith(POLICY) and bool(treatment.get("note")))
