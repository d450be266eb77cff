"""Bring a machine from nothing to ready; each step looks first and does only what is missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from looplab.errors import EXIT_MACHINE, LabError
from looplab.lab.credentials.grafana_password import ensure_password
from looplab.lab.docker.compose_plugin import apt_candidate, install_from_container, plugin_directory
from looplab.lab.docker.engine import COMPOSE_REMEDY, Engine, compose_message, find_engine
from looplab.lab.docker.engine_service import ensure_engine
from looplab.lab.docker.images import BASE_IMAGE, Images, Registries, ensure_base, ensure_images, say_notes
from looplab.lab.docker.own_images import FLOOD, OwnImages
from looplab.lab.docker.versions import show_version
from looplab.lab.machine.apt import install_packages, is_root
from looplab.lab.machine.machine import Machine, inspect_machine, machine_variables, write_machine_file
from looplab.system.terminal import Step


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
    engine = ensure_engine(root)
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


def ensure_compose(engine: Engine, have_base: Callable[[], None]) -> Engine:
    """Compose new enough: what is there, else apt's, else the one of trixie's package."""
    if engine.compose_serves:
        return engine
    package = apt_candidate() if is_root() else None
    if package is not None:
        install_packages("Docker Compose", [package], expected_s=20)
        engine = find_engine()
    if not engine.compose_serves:
        have_base()
        with Step("Getting Docker Compose out of Debian's package", expected_s=15):
            install_from_container(plugin_directory())
        engine = find_engine()
    if not engine.compose_serves:
        raise LabError(compose_message(engine), _hidden_plugin_remedy(engine), EXIT_MACHINE)
    return engine


def _hidden_plugin_remedy(engine: Engine) -> str:
    """Another plugin folder that is searched first can hide the one just installed."""
    if engine.compose is None:
        return COMPOSE_REMEDY
    return (
        f"An older plugin ({show_version(engine.compose)}) hides the one in {plugin_directory()}: "
        "docker info shows its path under Plugins; remove it."
    )
