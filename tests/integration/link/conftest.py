"""Real links between two network namespaces."""

import contextlib
from collections.abc import Iterator

import pytest
from support.containers import own_image
from support.link_pair import Pair

from looplab.lab.docker.images import is_here


@pytest.fixture(scope="session")
def image() -> str:
    if not is_here(own_image("link")):
        pytest.fail("no Docker engine with the lab's images answers here: run ./lab setup first")
    return own_image("link")


@pytest.fixture(scope="module")
def pair(image: str) -> Iterator[Pair]:
    """Target and peer for a whole module."""
    with contextlib.closing(Pair(image)) as found:
        found.open()
        yield found


@pytest.fixture
def own_pair(image: str) -> Iterator[Pair]:
    """Target and peer that the test may spoil."""
    with contextlib.closing(Pair(image)) as found:
        found.open()
        yield found
