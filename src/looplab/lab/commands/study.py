"""./lab study: interleaved, randomised repeats of the scenarios that a claim compares, with A/A arms; resumable."""

import json
import random
import secrets
import string
import textwrap
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from looplab.errors import EXIT_GOOD, EXIT_INVALID, EXIT_USAGE, LabError, UsageError, did_you_mean
from looplab.experiments.registry import EXPERIMENTS
from looplab.lab.checkout import Lab
from looplab.lab.docker.images import is_here
from looplab.lab.image_names import is_own
from looplab.lab.report_container import ask_inside
from looplab.lab.run_options import variables
from looplab.lab.scenarios import Scenario, check_one_kind, chosen
from looplab.lab.session import After, RunSession
from looplab.report.study_file import Study, digest_of_rules, read_studies
from looplab.run.folder import SCHEMA
from looplab.spec.brokers import BROKERS, DEFAULT, STUDY
from looplab.system.machine_facts import boot_id, hashed, machine_id
from looplab.system.terminal import say
from looplab.system.words import plural, show_duration
from looplab.treatments.loads import loads as known_loads

ARM_NAMES = string.ascii_letters
# Each variant of an arm has a name and settings.
Variants = Mapping[str, Mapping[str, str]]
# Starting and stopping containers, the warm-up and the scans take so long.
RUN_OVERHEAD_S = 7.0


@dataclass(frozen=True)
class Options:
    """How a study is made; with `twice`, a scenario of each load is run under two names, as an A/A arm."""

    rounds: int
    seed: int | None
    as_json: bool
    allow_invalid: bool
    quick: bool
    twice: bool = True


def study(
    root: Path,
    names: list[str],
    *,
    rounds: int,
    seed: int | None,
    as_json: bool,
    allow_invalid: bool,
    quick: bool,
    **given: str,
) -> int:
    """Run what the claims (or scenarios) `names` compare, in `rounds` of random order; return the exit code."""
    options = Options(rounds, seed, as_json, allow_invalid, quick)
    scenarios = _scenarios_of(root, names, given.get("AS"))
    variants: Variants = {}
    for experiment in EXPERIMENTS.values():
        for name in set(names) & experiment.variants.keys():
            variants = experiment.variants[name]
    if taken := {one for settings in variants.values() for one in settings if given.get(one)}:
        raise UsageError(f"{', '.join(sorted(taken))}: this study sets it for each arm.", "Leave out its option.")
    if STUDY in names:
        here = brokers_here(root, chosen(root, scenarios)[0], variables(root, scenarios, given, quick))
        variants = {name: variants[name] for name in here}
    return conduct(root, names, scenarios, options, given, variants)


def brokers_here(root: Path, scenario: Scenario, wanted: Mapping[str, str]) -> list[str]:
    """Return the brokers that this machine can run: those that the lab builds, and upstream's whose image is here.

    One that cannot do what `wanted` (options of the runs) asks for is left out. Raises LabError.
    """
    usable = []
    for name in BROKERS:
        lab = Lab(root, {**wanted, "BROKER": name})
        services = lab.compose().config(scenario.name)["services"]
        image = next(service["image"] for part, service in services.items() if part.endswith("broker"))
        if name != DEFAULT and not is_own(image) and not is_here(image):
            continue
        try:
            scenario.parameters(lab.settings())
            usable.append(name)
        except UsageError as error:
            if name == DEFAULT:
                raise
            say(f"{name} is left out: {error.message}")
    return usable


def conduct(
    root: Path,
    names: Sequence[str],
    scenarios: Sequence[str],
    options: Options,
    given: Mapping[str, str],
    variants: Variants | None = None,
) -> int:
    """Begin a study, or go on with the one like it that was interrupted. `given` holds options of the runs.

    With `variants` each scenario is run with the settings of each.
    """
    chosen_ones = variables(root, scenarios, given, options.quick)
    known = {scenario.run_name: scenario for scenario in chosen(root, scenarios)}
    experiment = check_one_kind(known.values())
    labs, parameters = _prepared(root, known, chosen_ones, variants or {"": {}})
    loads = {name: load for (name, _), values in parameters.items() if (load := getattr(values, "load", None))}
    least = max((load.quick_messages for name, load in known_loads().items() if name in loads.values()), default=0)
    if options.quick and not given.get("MESSAGES") and 0 < int(chosen_ones.get("MESSAGES", 0)) < least:
        chosen_ones["MESSAGES"] = str(least)
        labs, parameters = _prepared(root, known, chosen_ones, variants or {"": {}})
    sessions = {variant: RunSession(lab) for variant, lab in labs.items()}
    code = str(next(iter(sessions.values())).facts["code"])
    where = {"code": code, "machine": machine_id(), "boot": hashed(boot_id())}
    plan = _unfinished(root / "results", names, options, chosen_ones, where)
    if plan is None:
        plan = _begin(names, list(known), loads if options.twice else {}, options, chosen_ones, where, list(labs))
        plan.loads, plan.rules = loads, digest_of_rules(experiment.folder)
        plan.cells = {name: [list(cell.key) for cell in values.cells] for (name, _), values in parameters.items()}
        plan.messages = {name: values.samples for (name, _), values in parameters.items()}
        plan.write(root / "results")
    else:
        say(f"Going on with {plan.study}: {len(plan.runs)} of {len(plan.runs) + len(plan.left)} runs are done.")
    left = plan.left
    seconds = sum(parameters[plan.arms[arm], plan.variants.get(arm, "")].total_s + RUN_OVERHEAD_S for _, arm in left)
    file = str(plan.path(root / "results"))
    say(_summary(plan, seconds, ask_inside(root, "looplab.lab.study_inside", "power", experiment.name, file)))
    return _run(sessions, plan, [known[plan.arms[arm]] for _, arm in left], options, experiment.name)


def _prepared(
    root: Path, known: Mapping[str, Scenario], chosen_ones: Mapping[str, str], variants: Variants
) -> tuple[dict[str, Lab], dict[tuple[str, str], Any]]:
    """Return the lab of each variant, and the parameters of each scenario in it: all are read before a run starts."""
    labs = {variant: Lab(root, {**chosen_ones, **own}, known.values()) for variant, own in variants.items()}
    each = ((name, variant, known[name].parameters(lab.settings())) for name in known for variant, lab in labs.items())
    return labs, {(name, variant): values for name, variant, values in each}


def _run(
    sessions: Mapping[str, RunSession], plan: Study, scenarios: Sequence[Scenario], options: Options, name: str
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
    if options.as_json:
        print(json.dumps({"schema": SCHEMA, "study": plan.study, "runs": documents}, indent=1))
    invalid = sum(not run["valid"] for run in plan.runs)
    say(f"{len(plan.runs)} runs, {invalid} of them INVALID; order and seed are in results/{plan.path(results).name}.")
    say("For the verdicts: ./lab report")
    session.where()
    return EXIT_GOOD if not invalid or options.allow_invalid else EXIT_INVALID


def _all_run(sessions: Mapping[str, RunSession], runs: Iterable[tuple[str, Scenario]], after: After) -> bool:
    """Run each scenario with its variant, one session for neighbours with the same; return whether all were run."""
    groups = groupby(runs, key=itemgetter(0))
    return all(sessions[variant].run([scenario for _, scenario in group], after) for variant, group in groups)


def _scenarios_of(root: Path, names: Sequence[str], of: str | None = None) -> list[str]:
    """Return the scenarios that claims compare, or scenarios as for `chosen`. Raises LabError (exit code 2)."""
    claims = {name: compared for experiment in EXPERIMENTS.values() for name, compared in experiment.studies.items()}
    scenarios: list[str] = []
    for name in names:
        scenarios += claims.get(name, (name,))
    try:
        return [scenario.run_name for scenario in chosen(root, scenarios, of)]
    except LabError as error:
        if error.exit_code != EXIT_USAGE:
            raise
        near = "".join(did_you_mean(name, claims) for name in names if name not in claims)
        raise UsageError(error.message, f"{near or f'{error.remedy} '}./lab study --help names the claims.") from None


def _unfinished(
    results: Path, names: Sequence[str], options: Options, chosen_ones: Mapping[str, str], where: Mapping[str, str]
) -> Study | None:
    """Return the newest study like this one that has runs left; a restart or a change of the lab begins a new one."""
    for plan in reversed(read_studies(results)):
        alike = (plan.names, plan.rounds, plan.options) == (list(names), options.rounds, dict(chosen_ones))
        if not plan.left or not alike or options.seed not in (None, plan.seed):
            continue
        if plan.where == where:
            return plan
        changed = ", ".join(name for name in where if plan.where.get(name) != where[name])
        say(f"{plan.study} was interrupted before a change of {changed}: its runs are not compared with new ones.")
    return None


def _begin(
    names: Sequence[str],
    scenarios: Sequence[str],
    loads: Mapping[str, str],
    options: Options,
    chosen_ones: Mapping[str, str],
    where: Mapping[str, str],
    variants: Sequence[str] = (),
) -> Study:
    """Return a new study: the first scenario of each load has a second arm, and every round an order of its own.

    With `variants` each scenario has an arm for each, and the second arms are of the first one.
    """
    seed = options.seed if options.seed is not None else secrets.randbelow(1 << 31)
    rng = random.Random(seed)
    # Where several scenarios have one load, the first in the list is run twice.
    twins = {load: name for name, load in reversed(list(loads.items()))}
    every = variants or ("",)
    slots = [(name, variant) for name in scenarios for variant in every] + [(name, every[0]) for name in twins.values()]
    if len(slots) > len(ARM_NAMES):
        raise UsageError(f"{len(slots)} arms are more than a study has names for.", "Name fewer scenarios.")
    # Which of two arms came first must not show in its name.
    rng.shuffle(slots)
    named = dict(zip(ARM_NAMES, slots, strict=False))
    arms = {arm: name for arm, (name, _) in named.items()}
    by_variant = {arm: variant for arm, (_, variant) in named.items() if variant}
    blocks = [rng.sample(list(arms), len(arms)) for _ in range(options.rounds)]
    name = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{'-'.join(names)[:40]}"
    return Study(name, list(names), seed, options.rounds, arms, blocks, dict(chosen_ones), dict(where), by_variant)


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
