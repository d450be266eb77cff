"""Engines of this machine, joined to a Swarm."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from support.engines import Engine
from support.wire import Lan


@contextmanager
def nodes(names: Sequence[str], folder: Path) -> Iterator[list[Engine]]:
    """Yield engines that are joined to a Swarm, which the first one manages."""
    with ExitStack() as stack:
        lan = stack.enter_context(Lan(os.getpid() % 200 + 20, tuple(names)))
        made = [stack.enter_context(Engine(lan, name, folder / name)) for name in names]
        stack.callback(_leave, made)
        first, *others = made
        first.docker("swarm", "init", "--advertise-addr", first.address)
        token = first.docker("swarm", "join-token", "--quiet", "worker")
        for node in others:
            node.docker("swarm", "join", "--token", token, "--advertise-addr", node.address, f"{first.address}:2377")
        yield made


def _leave(made: Sequence[Engine]) -> None:
    leave = ["docker", "swarm", "leave", "--force"]
    for node in reversed(made):
        subprocess.run(leave, env=node.environment, capture_output=True, timeout=90, check=False)
