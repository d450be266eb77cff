"""Board, broker, bridge and client of asip on loopback."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.asip_parts import ASIP_FILES, AsipParts
from support.containers import copy_out, own_image


@pytest.fixture(scope="session")
def asip_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the board program and of the firmwares, copied out of the lab's image."""
    folder = tmp_path_factory.mktemp("asip")
    copy_out(own_image("robot"), folder, *ASIP_FILES)
    return folder


@pytest.fixture
def parts(asip_files: Path, tmp_path: Path) -> Iterator[Callable[..., AsipParts]]:
    """Start all parts; they end with the test."""
    started: list[AsipParts] = []

    def start(board: str = "mega", **variables: str) -> AsipParts:
        started.append(AsipParts(asip_files, tmp_path, board, **variables))
        return started[-1]

    yield start
    for one in started:
        one.close()
