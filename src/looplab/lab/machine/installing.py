"""Find or install a Docker engine and a Compose that the lab can use."""

import os
import platform
from collections.abc import Callable

from looplab.errors import MachineError
from looplab.lab.docker.engine import (
    COMPOSE_REMEDY,
    NO_ANSWER,
    NO_CLIENT,
    USUAL_ENDPOINTS,
    Engine,
    find_engine,
    require_engine,
)
from looplab.lab.image_names import BASE
from looplab.lab.machine.limits import give_rt_budget
from looplab.lab.programs import run_script
from looplab.system.terminal import say


def ensure_engine() -> Engine:
    """Return an engine that answers this user; install and start one if root asks on Linux."""
    engine = find_engine()
    # An engine started here answers on the usual socket, not where DOCKER_HOST or a context points.
    startable = engine.endpoint in USUAL_ENDPOINTS and platform.system() == "Linux" and os.geteuid() == 0
    if engine.trouble in (NO_CLIENT, NO_ANSWER) and startable:
        run_script("install-engine", title="Installing and starting the Docker engine", expected_s=50)
        engine = find_engine()
    require_engine(engine)
    if not give_rt_budget(engine):
        remedy = "Run sudo ./lab setup." if os.geteuid() else "The group above it gives no more: docs/platforms.md."
        say(f"The engine's control group has too small a real-time budget, so real-time priority cannot work. {remedy}")
    return engine


def ensure_compose(engine: Engine, have_base: Callable[[], str]) -> Engine:
    """Return `engine` with a Compose that is new enough; `have_base` has the image that the plugin is unpacked in."""
    if engine.compose_serves:
        return engine
    base = {BASE: have_base()}
    run_script("install-compose", title="Installing Docker Compose", expected_s=20, environment=base)
    engine = find_engine()
    if engine.compose_serves:
        return engine
    remedy = "Does an older plugin hide the new one? `docker info` shows its path under Plugins: remove it."
    raise MachineError(engine.compose_message, remedy if engine.compose else COMPOSE_REMEDY)
