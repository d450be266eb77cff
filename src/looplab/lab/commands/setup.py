"""Bring a machine from nothing to ready; each step looks first and does only what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from looplab.errors import EXIT_GOOD
from looplab.lab.credentials.grafana_password import ensure_password
from looplab.lab.docker.images import BASE_IMAGE, Images, Registries, ensure_base, ensure_images, say_notes
from looplab.lab.docker.installing import ensure_compose, ensure_engine
from looplab.lab.docker.own_images import FLOOD, OwnImages
from looplab.lab.machine.machine import Machine, inspect_machine, machine_variables, write_machine_file
from looplab.system.terminal import say


@dataclass(frozen=True)
class SetUp:
    """What a set-up found and made: facts, variables for Compose, images."""

    machine: Machine
    variables: dict[str, str]
    images: Images = field(default_factory=Images)


def set_up(
    root: Path,
    upstream: Mapping[str, str],
    own: OwnImages,
    *,
    ports: Mapping[str, int] | None = None,
    settled: Mapping[str, str] | None = None,
) -> SetUp:
    """Engine, Compose, upstream images, Grafana's password, `.env.machine`, own images - in that order.

    `upstream` maps the variables of .env to the references they name. Quick where all is there: no registry is asked
    unless an image is missing, nor for Grafana where `settled`, an earlier set-up's variables, says that none has it.
    """
    engine = ensure_engine()
    registries, images = Registries(), Images()
    ensure_compose(engine, lambda: ensure_base(registries, images))
    own.fetch(registries, images)
    stand_in = own.references[FLOOD]
    ensure_images(root, upstream, flood_stand_in=stand_in, registries=registries, images=images, settled=settled)
    if building := own.must_build():
        ensure_base(registries, images)
    machine = inspect_machine(root, (ports or {}).items(), probe_images=(BASE_IMAGE, *own.references.values()))
    administrator = {} if images.variables.get("GRAFANA") == "off" else ensure_password(root)
    variables = machine_variables(machine, {**images.variables, **own.variables, **administrator})
    write_machine_file(root, variables)
    say_notes(images)
    if building:
        own.build(variables)
    return SetUp(machine, variables, images)


def command(root: Path) -> int:
    """Make this machine ready; return the exit code."""
    from looplab.lab.checkout import Lab
    from looplab.lab.commands.pair import prepare
    from looplab.lab.credentials.identities import exist

    lab = Lab(root)
    lab.make_ready(ask_again=True)
    if lab.listens_with_tls() or exist(root):
        prepare(lab)
    say("This machine is ready: ./lab run scenario5")
    return EXIT_GOOD
