"""Images built once for all tests, and containers that are removed after each."""

import contextlib

import pytest
from support.image_harness import Container, Starter, build, configuration, starter
from support.waiting import until


@pytest.fixture(scope="session")
def mosquitto_image() -> str:
    return build("looplab-test/mosquitto", "images/mosquitto")


@pytest.fixture(scope="session")
def floor_image() -> str:
    return build("looplab-test/floor", "bench", "floor.Dockerfile")


@pytest.fixture
def start(at_end: contextlib.ExitStack) -> Starter:
    return starter(at_end)


@pytest.fixture
def broker(mosquitto_image: str, start: Starter) -> Container:
    """A broker with the published configuration; join its network to reach it on 127.0.0.1."""
    container = start(mosquitto_image, options=("--user", "1883:1883", *configuration("thesis")))
    until(lambda: "running" in container.logs(), "the broker")
    return container
