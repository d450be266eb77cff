"""Board, broker, bridge and client of asip on loopback."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.asip_parts import AsipParts, asip_files  # noqa: F401


@pytest.fixture
def parts(asip_files: Path, tmp_path: Path) -> Iterator[Callable[..., AsipParts]]:  # noqa: F811
    """Start all parts; they end with the test."""
    started: list[AsipParts] = []

    def start(board: str = "mega", **variables: str) -> AsipParts:
        started.append(AsipParts(asip_files, tmp_path, board, **variables))
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.fixture(scope="module")
def kept(asip_files: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AsipParts]:  # noqa: F811
    """The parts around a Mega, for the tests of a module that leave them as they are."""
    found = AsipParts(asip_files, tmp_path_factory.mktemp("parts"))
    yield found
    found.close()
