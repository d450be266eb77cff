"""./lab study: interleaved, randomised repeats of the scenarios that a claim compares, with A/A arms; resumable."""

import json
import random
import secrets
import string
import textwrap
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from looplab.errors import EXIT_GOOD, EXIT_INVALID, UsageError
from looplab.experiments.registry import EXPERIMENTS
from looplab.lab.checkout import Lab
from looplab.lab.report_container import ask_inside
from looplab.lab.run_options import variables
from looplab.lab.scenarios import Scenario, chosen
from looplab.lab.session import After, RunSession
from looplab.report.study_file import Study, digest_of_rules, read_studies
from looplab.run.folder import SCHEMA
from looplab.system.machine_facts import boot_id, hashed, machine_id
from looplab.system.terminal import say
from looplab.system.words import plural, show_duration
from looplab.treatments.loads import loads as known_loads

ARM_NAMES = string.ascii_letters
# Each variant of an arm has a name and settings.
Variants = Mapping[str, Mapping[str, str]]
# Starting and stopping containers, the warm-up and the scans take so long.
RUN_OVERHEAD_S = 7.0


def study(
    root: Path,
    names: list[str],
    *,
    rounds: int,
    as_json: bool,
    allow_invalid: bool,
    quick: bool,
    seed: int | None = None,
    twice: bool = True,
    **given: str,
) -> int:
    """Run what the claims (or scenarios) `names` compare, in `rounds` of random order; return the exit code.

    The study like it that was interrupted goes on. With `twice`, a scenario of each load is run under two names, as an
    A/A arm. `given` holds options of the runs.
    """
    compared = _compared(root, names, given.get("AS"))
    variants: Variants = {"": {}}
    for experiment in EXPERIMENTS.values():
        for name in set(names) & experiment.variants.keys():
            variants = experiment.variants[name]
    if taken := {one for settings in variants.values() for one in settings if given.get(one)}:
        raise UsageError(f"{', '.join(sorted(taken))}: this study sets it for each arm.", "Leave out its option.")
    chosen_ones = variables(compared, given, quick)
    experiment = compared[0].experiment
    known = {scenario.run_name: scenario for scenario in compared}
    labs, parameters = _prepared(root, known, chosen_ones, variants)
    loads = {name: load for (name, _), values in parameters.items() if (load := getattr(values, "load", None))}
    least = max((load.quick_messages for name, load in known_loads().items() if name in loads.values()), default=0)
    if quick and not given.get("MESSAGES") and 0 < int(chosen_ones.get("MESSAGES", 0)) < least:
        chosen_ones["MESSAGES"] = str(least)
        labs, parameters = _prepared(root, known, chosen_ones, variants)
    sessions = {variant: RunSession(lab) for variant, lab in labs.items()}
    code = str(next(iter(sessions.values())).facts["code"])
    where = {"code": code, "machine": machine_id(), "boot": hashed(boot_id())}
    wanted = Study(
        study=f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{'-'.join(names)[:40]}",
        names=list(names),
        seed=secrets.randbelow(1 << 31) if seed is None else seed,
        rounds=rounds,
        arms={},
        blocks=[],
        options=chosen_ones,
        where=where,
        loads=loads,
        cells={name: [list(cell.key) for cell in values.cells] for (name, _), values in parameters.items()},
        messages={name: values.samples for (name, _), values in parameters.items()},
        rules=digest_of_rules(experiment.folder),
    )
    plan = _unfinished(root / "results", wanted, any_seed=seed is None)
    if plan is None:
        plan = wanted
        _draw(plan, list(known), loads if twice else {}, list(labs))
        plan.write(root / "results")
    else:
        say(f"Going on with {plan.study}: {len(plan.runs)} of {len(plan.runs) + len(plan.left)} runs are done.")
    left = plan.left
    seconds = sum(parameters[plan.arms[arm], plan.variants.get(arm, "")].total_s + RUN_OVERHEAD_S for _, arm in left)
    file = str(plan.path(root / "results"))
    say(_summary(plan, seconds, ask_inside(root, "looplab.lab.study_inside", "power", experiment.name, file)))
    return _run(sessions, plan, [known[plan.arms[arm]] for _, arm in left], experiment.name, as_json, allow_invalid)


def _prepared(
    root: Path, known: Mapping[str, Scenario], chosen_ones: Mapping[str, str], variants: Variants
) -> tuple[dict[str, Lab], dict[tuple[str, str], Any]]:
    """Return the lab of each variant, and the parameters of each scenario in it: all are read before a run starts."""
    labs = {variant: Lab(root, {**chosen_ones, **own}, list(known.values())) for variant, own in variants.items()}
    each = ((name, variant, known[name].parameters(lab.settings())) for name in known for variant, lab in labs.items())
    return labs, {(name, variant): values for name, variant, values in each}


def _run(
    sessions: Mapping[str, RunSession],
    plan: Study,
    scenarios: Sequence[Scenario],
    name: str,
    as_json: bool,
    allow_invalid: bool,
) -> int:
    """Run what is left of a study of the experiment `name`, by the session of each variant; return the exit code.

    Its file is up to date after each run.
    """
    session = next(iter(sessions.values()))
    results, left = session.lab.root / "results", plan.left
    documents: list[dict[str, Any]] = []
    begun_s = time.monotonic()

    def after(document: dict[str, Any]) -> None:
        block, arm = left[len(documents)]
        documents.append(document)
        plan.runs.append({"block": block, "arm": arm, "run_id": document["run_id"], "valid": bool(document["valid"])})
        plan.write(results)
        each_s = (time.monotonic() - begun_s) / len(documents)
        state = "valid" if document["valid"] else f"INVALID: {'; '.join(document['invalid_because'])}"
        rest = show_duration(each_s * (len(left) - len(documents)))
        say(f"  round {block + 1} of {plan.rounds}: {document['run_id']}, {state}; about {rest} left")

    variants = [plan.variants.get(arm, "") for _, arm in left]
    if not _all_run(sessions, zip(variants, scenarios, strict=True), after):
        say(f"The study is kept in {plan.path(results).name}; the same command goes on with it.")
        return EXIT_INVALID
    # While the rules are those that were planned: later ones may say another word.
    file = str(plan.path(results))
    plan.words = json.loads(ask_inside(session.lab.root, "looplab.lab.study_inside", "words", name, file) or "{}")
    plan.write(results)
    if as_json:
        print(json.dumps({"schema": SCHEMA, "study": plan.study, "runs": documents}, indent=1))
    invalid = sum(not run["valid"] for run in plan.runs)
    say(f"{len(plan.runs)} runs, {invalid} of them INVALID; order and seed are in results/{plan.path(results).name}.")
    say("For the verdicts: ./lab report")
    session.where()
    return EXIT_GOOD if not invalid or allow_invalid else EXIT_INVALID


def _all_run(sessions: Mapping[str, RunSession], runs: Iterable[tuple[str, Scenario]], after: After) -> bool:
    """Run each scenario with its variant, one session for neighbours with the same; return whether all were run."""
    groups = groupby(runs, key=itemgetter(0))
    return all(sessions[variant].run([scenario for _, scenario in group], after) for variant, group in groups)


def _compared(root: Path, names: Sequence[str], of: str | None = None) -> list[Scenario]:
    """Return the scenarios that claims compare, or scenarios as for `chosen`. Raises LabError (exit code 2)."""
    claims = {name: compared for experiment in EXPERIMENTS.values() for name, compared in experiment.studies.items()}
    return chosen(root, [one for name in names for one in claims.get(name, (name,))], of)


def _unfinished(results: Path, wanted: Study, *, any_seed: bool) -> Study | None:
    """Return the newest study like this one that has runs left; a restart or a change of the lab begins a new one."""
    for plan in reversed(read_studies(results)):
        alike = all(getattr(plan, name) == getattr(wanted, name) for name in ("names", "rounds", "options"))
        if not plan.left or not alike or not (any_seed or plan.seed == wanted.seed):
            continue
        if plan.where == wanted.where:
            return plan
        changed = ", ".join(name for name, one in wanted.where.items() if plan.where.get(name) != one)
        say(f"{plan.study} was interrupted before a change of {changed}: its runs are not compared with new ones.")
    return None


def _draw(plan: Study, scenarios: Sequence[str], loads: Mapping[str, str], variants: Sequence[str]) -> None:
    """Draw the arms and rounds of a study: each round has an order of its own.

    Each scenario has an arm for each variant; the first scenario of each load has a second arm of the first variant.
    """
    rng = random.Random(plan.seed)
    # Where several scenarios have one load, the first in the list is run twice.
    twins = {load: name for name, load in reversed(list(loads.items()))}
    slots = [(name, variant) for name in scenarios for variant in variants]
    slots += [(name, variants[0]) for name in twins.values()]
    if len(slots) > len(ARM_NAMES):
        raise UsageError(f"{len(slots)} arms are more than a study has names for.", "Name fewer scenarios.")
    # Which of two arms came first must not show in its name.
    rng.shuffle(slots)
    named = dict(zip(ARM_NAMES, slots, strict=False))
    plan.arms = {arm: name for arm, (name, _) in named.items()}
    plan.variants = {arm: variant for arm, (_, variant) in named.items() if variant}
    plan.blocks = [rng.sample(list(named), len(named)) for _ in range(plan.rounds)]


def _summary(plan: Study, seconds: float, can_show: str) -> str:
    """Return a line on the plan, what it compares, and what so many rounds can show."""
    counts = Counter(dict.fromkeys(plan.arms.values(), 1) if plan.variants else plan.arms.values())
    compared = ", ".join(f"{name}{' twice' if count > 1 else ''}" for name, count in sorted(counts.items()))
    if plan.variants:
        compared += f"; each with {', '.join(sorted(set(plan.variants.values())))}"
    rounds = f"{plural(plan.rounds, 'round')} of {len(plan.arms)} runs in random order"
    head = f"{plan.study}: {rounds}, seed {plan.seed}; about {show_duration(seconds)} left"
    wrap = textwrap.TextWrapper(78, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
    lines = (line for text in (f"Compared: {compared}.", *can_show.splitlines()) for line in wrap.wrap(text))
    return "\n".join([head, *lines])
