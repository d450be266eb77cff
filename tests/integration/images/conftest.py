"""Images built once for all tests, and containers that are removed after each."""

import contextlib

import pytest
from support.containers import docker, own_image
from support.image_harness import HARDENED, Container, Starter, build, configuration
from support.waiting import until


@pytest.fixture(scope="session")
def mosquitto_image() -> str:
    return build("looplab-test/mosquitto", "images/mosquitto")


@pytest.fixture(scope="session")
def prometheus_image() -> str:
    return build("looplab-test/prometheus", "images/prometheus")


@pytest.fixture(scope="session")
def stress_image() -> str:
    return own_image("stress")


@pytest.fixture(scope="session")
def flood_image() -> str:
    return own_image("flood")


@pytest.fixture(scope="session")
def floor_image() -> str:
    return build("looplab-test/floor", "bench", "floor.Dockerfile")


@pytest.fixture
def start(at_end: contextlib.ExitStack) -> Starter:
    """start(image, *arguments, options=(...)) runs a hardened container in the background."""

    def starter(image: str, *arguments: str, options: tuple[str, ...] = ()) -> Container:
        container = Container(docker("create", *HARDENED, *options, image, *arguments).strip())
        at_end.callback(docker, "rm", "--force", "--volumes", container.id)
        docker("start", container.id)
        return container

    return starter


@pytest.fixture
def broker(mosquitto_image: str, start: Starter) -> Container:
    """A broker with the published configuration; join its network to reach it on 127.0.0.1."""
    container = start(mosquitto_image, options=("--user", "1883:1883", *configuration("thesis")))
    until(lambda: "running" in container.logs(), "the broker", 10.0)
    return container
