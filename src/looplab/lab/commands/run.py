"""./lab run: make the machine ready, run each scenario, print its table."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from looplab.errors import EXIT_GOOD, EXIT_INVALID
from looplab.exercises.forms import make_form
from looplab.lab.checkout import Lab
from looplab.lab.commands import study
from looplab.lab.hosts.run import PlacedSession
from looplab.lab.run_options import PARTS, variables
from looplab.lab.scenarios import chosen
from looplab.lab.session import RunSession
from looplab.run.folder import SCHEMA
from looplab.run.life import summary
from looplab.spec.parameters import RunParameters
from looplab.system.terminal import say
from looplab.system.words import plural, show_duration


def run(
    root: Path, scenarios: list[str], *, as_json: bool, allow_invalid: bool, quick: bool, rounds: int = 1, **given: str
) -> int:
    """Run scenarios one after another, print their summaries or one JSON document; return the exit code.

    `given` holds the other options of the command line, by variable. Several rounds are a study of these scenarios.
    """
    on = {part: given.pop(f"{part}_on", "") for part in PARTS}
    apart = any(on.values())
    wanted = chosen(root, scenarios, given.get("AS"))
    if rounds > 1 and not apart:
        asked: dict[str, Any] = {"as_json": as_json, "allow_invalid": allow_invalid, "quick": quick, **given}
        return study.study(root, scenarios, rounds=rounds, twice=False, **asked)
    lab = Lab(root, variables(wanted, given, quick), wanted)
    # Read every parameter before anything is started: a typing error costs no run.
    settings = {**lab.settings(), **({"ROBOT": "remote"} if apart else {})}
    parameters = [scenario.parameters(settings) for scenario in wanted]
    session = PlacedSession(lab, on, rounds) if apart else RunSession(lab)
    return _run(session, parameters, as_json, allow_invalid)


def _run(
    session: RunSession | PlacedSession, parameters: Sequence[RunParameters], as_json: bool, allow_invalid: bool
) -> int:
    scenarios, root = session.lab.scenarios, session.lab.root
    runs: list[dict[str, Any]] = []

    def after(document: dict[str, Any]) -> None:
        runs.append(document)
        if len(scenarios) > 1:
            say(f"  {document['run_id']}, {'valid' if document['valid'] else 'INVALID'}")

    say(_plan(parameters))
    for scenario in scenarios:
        if form := make_form(root, scenario.run_name):
            say(f"A form for your prediction and answers: {form.relative_to(root)}")
    whole = session.run(scenarios, after)
    if as_json and whole:
        print(json.dumps({"schema": SCHEMA, "runs": runs}, indent=1), flush=True)
    elif runs and not as_json:
        print(f"{summary(scenarios[0].experiment, runs)}\n", flush=True)
    if not whole:
        return EXIT_INVALID
    session.where()
    return EXIT_GOOD if allow_invalid or all(document["valid"] for document in runs) else EXIT_INVALID


def _plan(parameters: Sequence[RunParameters]) -> str:
    cells = sum(len(p.cells) for p in parameters)
    duration = show_duration(sum(p.total_s for p in parameters))
    return (
        f"{plural(len(parameters), 'scenario')}, {plural(cells, 'cell')}, about {duration} of measuring, "
        f"fidelity {parameters[0].fidelity}"
    )
