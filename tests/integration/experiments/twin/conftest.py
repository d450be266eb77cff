"""One PostgreSQL for all tests, a broker and an instance a test."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from support.parts import Broker, Child
from support.postgres import Postgres, open_folder
from support.twin_lab import TwinLab


@pytest.fixture(scope="session")
def cluster() -> Iterator[Postgres]:
    with open_folder() as folder:
        found = Postgres(folder)
        yield found
        found.close()


@pytest.fixture
def make_lab(
    start_broker: Callable[..., Broker], start_command: Callable[..., Child], cluster: Postgres, tmp_path: Path,
    at_end: ExitStack,
) -> Callable[..., TwinLab]:  # fmt: skip
    """Return a function that starts broker and instance beside a PostgreSQL."""

    def make(more: str = "", inflight: int = 0, postgres: Postgres = cluster, **broker: Any) -> TwinLab:
        limits = f"max_queued_messages 0\nmax_inflight_messages {inflight}\n"
        text = f"allow_anonymous true\n{limits}sys_interval 1\n{more}"
        postgres.do("TRUNCATE message")
        made = TwinLab(start_broker(more=text, **broker), postgres, start_command, tmp_path)
        return at_end.enter_context(closing(made))

    return make


@pytest.fixture
def lab(make_lab: Callable[..., TwinLab]) -> TwinLab:
    return make_lab()
