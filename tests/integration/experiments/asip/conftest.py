"""Board, broker, bridge and client of asip on loopback."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from support.asip_parts import AsipParts, asip_files  # noqa: F401


@pytest.fixture
def parts(asip_files: Path, tmp_path: Path, at_end: ExitStack) -> Callable[..., AsipParts]:  # noqa: F811
    """Start all parts; they end with the test."""
    return lambda *board, **variables: at_end.enter_context(
        closing(AsipParts(asip_files, tmp_path, *board, **variables))
    )


@pytest.fixture(scope="module")
def kept(asip_files: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AsipParts]:  # noqa: F811
    """The parts around a Mega, for the tests of a module that leave them as they are."""
    with closing(AsipParts(asip_files, tmp_path_factory.mktemp("parts"))) as found:
        yield found
