"""Images built once for all tests, and containers that are removed after each."""

import contextlib

import pytest
from support.image_harness import Container, Starter, build, configuration, starter
from support.waiting import until


@pytest.fixture(scope="session")
def mosquitto_image() -> str:
    return build("looplab-test/mosquitto", "images/mosquitto")


@pytest.fixture
def start(at_end: contextlib.ExitStack) -> Starter:
    return starter(at_end)


@pytest.fixture
def broker(mosquitto_image: str, start: Starter, request: pytest.FixtureRequest) -> Container:
    """A broker, by default as published; join its network to reach it on 127.0.0.1."""
    fidelity = getattr(request, "param", "thesis")
    container = start(mosquitto_image, options=("--user", "1883:1883", *configuration(fidelity)))
    until(lambda: "running" in container.logs(), "the broker")
    return container
