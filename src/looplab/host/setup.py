"""Bring a machine from nothing to ready; each step looks first and does only what is missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from looplab.errors import EXIT_MACHINE, LabError
from looplab.host.apt import install_packages, is_root
from looplab.host.compose_plugin import apt_candidate, install_from_container, plugin_directory
from looplab.host.engine import COMPOSE_REMEDY, Engine, compose_message, find_engine
from looplab.host.engine_service import ensure_engine
from looplab.host.grafana_password import ensure_password
from looplab.host.images import (
    BASE_IMAGE,
    Images,
    Registries,
    ensure_base,
    ensure_images,
    image_fact,
    say_notes,
)
from looplab.host.machine import Machine, inspect_machine, machine_variables, read_machine_file, write_machine_file
from looplab.host.steps import Step
from looplab.host.versions import show_version

# Builds the lab's own images; gets the variables found so far (they may name images).
BuildOwn = Callable[[Mapping[str, str]], None]


@dataclass(frozen=True)
class SetUp:
    """What a set-up found and made: facts, variables for Compose, images."""

    machine: Machine
    variables: dict[str, str]
    images: Images = field(default_factory=Images)


def set_up(
    root: Path,
    upstream: Mapping[str, str],
    *,
    flood_stand_in: str = "",
    ports: Mapping[str, int] | None = None,
    own: Sequence[str] = (),
    build_own: BuildOwn | None = None,
    ask_again: bool = False,
) -> SetUp:
    """Engine, Compose, upstream images, Grafana's password, `.env.machine`, own images - in that order.

    `upstream` maps the variables of .env to the references they pin, `own` names the lab's own images,
    which `build_own` builds. Quick where all is there: no registry is asked unless an image is missing,
    nor for Grafana where .env.machine says that it could not be had (`ask_again` forgets that).
    """
    engine = ensure_engine(root)
    registries, images = Registries(), Images()
    ensure_compose(engine, lambda: ensure_base(registries, images))
    ensure_images(
        root,
        upstream,
        flood_stand_in=flood_stand_in,
        registries=registries,
        images=images,
        settled={} if ask_again else read_machine_file(root),
    )
    if build_own is not None and _must_build(own):
        ensure_base(registries, images)
    machine = inspect_machine(root, (ports or {}).items(), probe_images=(BASE_IMAGE, *own))
    administrator = {} if images.variables.get("GRAFANA") == "off" else ensure_password(root)
    variables = machine_variables(machine, {**images.variables, **administrator})
    write_machine_file(root, variables)
    say_notes(images)
    if build_own is not None and _must_build(own):
        build_own(variables)
    return SetUp(machine, variables, images)


def _must_build(own: Sequence[str]) -> bool:
    """A room that loaded a bundle has all of our images and no base: there is nothing to build from."""
    return image_fact(BASE_IMAGE) is not None or not own or any(image_fact(name) is None for name in own)


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
