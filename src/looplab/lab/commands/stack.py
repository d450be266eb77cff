"""./lab stack: an experiment as a file for `docker stack deploy`."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from looplab.errors import EXIT_GOOD, UsageError
from looplab.experiments.registry import EXPERIMENTS
from looplab.lab.checkout import Lab
from looplab.lab.docker.engine import find_engine
from looplab.lab.docker.images import images_of
from looplab.lab.run_options import variables
from looplab.lab.scenarios import check_one_kind, chosen
from looplab.lab.secret_files import FOLDER, ensure_password
from looplab.lab.stack.nodes import Swarm, broker_nodes, can_encrypt, check, check_machines, read_swarm
from looplab.lab.stack.translate import Source, translate
from looplab.spec.experiment import Experiment
from looplab.system.terminal import say

SECRET_FILES = FOLDER / "stack"
OWN_NETWORK = (
    "Where a kernel lacks ESP, join the nodes by a tunnel: docker swarm init --advertise-addr ADDRESS --data-path-addr "
    "ADDRESS, and the same for docker swarm join, with their addresses in WireGuard."
)


def stack(root: Path, scenario: str, *, unchecked: bool, shared: bool, publish: bool) -> int:
    """Print the stack of `scenario` as JSON, which is YAML, and what Swarm lacks on standard error.

    The Swarm is looked at first, unless `unchecked`. Raises LabError: nothing was started.
    """
    asked = chosen(root, [scenario])
    experiment, name = check_one_kind(asked), asked[0].name
    if experiment.swarm is None:
        known = ", ".join(name for name, one in EXPERIMENTS.items() if one.swarm is not None)
        raise UsageError(f"{name} needs devices or real-time limits, which Swarm refuses.", f"Take one of {known}.")
    swarm_only = {**experiment.swarm, "SWARM": "on", "PROMETHEUS_CONFIG": "swarm.yml"}
    lab = Lab(root, variables(root, [name], {}, quick=False) | swarm_only, asked)
    asked[0].parameters(lab.settings())
    if lab.settings().get("BROKER_TLS") == "on":
        raise UsageError(f"BROKER_TLS=on: {name} has no TLS of its own.", OWN_NETWORK)
    swarm = Swarm() if unchecked else read_swarm()
    compose = lab.compose(_of_the_run(lab, experiment, name))
    facts = {**lab.environment_facts(find_engine()), **lab.model_facts(compose, name)}
    compose.environment["LOOPLAB_ENVIRONMENT"] = json.dumps(facts)
    model = compose.config(name)
    encrypted = can_encrypt()
    images = images_of({one["image"] for one in model["services"].values()})
    # Those that share their last word hold the same password.
    passwords = {one.name: root / SECRET_FILES / Path(one.name).name for one in experiment.secrets}
    files = {name.replace("/", "-"): ensure_password(path) for name, path in passwords.items()}
    users = {image: one.user for image, one in images.items() if one.user}
    source = Source((name,), experiment.secrets, files, users, broker_nodes(swarm), publish, encrypted)
    made = translate(model, source)
    if not unchecked:
        check(replace(swarm, stacks=() if shared else swarm.stacks), made, name)
        check_machines(made, swarm)
    print(json.dumps(made.document(), indent=1))
    _say_notes(made.notes, encrypted)
    return EXIT_GOOD


def _of_the_run(lab: Lab, experiment: Experiment, name: str) -> dict[str, str]:
    """Return what a run gets beside its settings: sizes, the owner of results/ as its user."""
    results = lab.root / "results"
    results.mkdir(exist_ok=True)
    owner = results.stat()
    sizes: Callable[..., dict[str, str]] = getattr(experiment.part("host"), "variables", lambda *_given: {})
    return {
        **sizes({**lab.settings(), "SCENARIO": name}, sorted(os.sched_getaffinity(0))),
        "LAB_UID": str(owner.st_uid),
        "LAB_GID": str(owner.st_gid),
    }


def _say_notes(notes: dict[str, str], encrypted: bool) -> None:
    for key, text in sorted(notes.items()):
        say(f"{key}: {text}")
    if encrypted:
        say("networks: encrypted by IPsec (ESP), if the kernel of every node has it")
    else:
        say(f"networks: plain, this kernel has no ESP. What the parts send passes in the clear. {OWN_NETWORK}")
