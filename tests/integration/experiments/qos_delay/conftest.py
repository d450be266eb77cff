"""The dissector of these tests: this machine's tshark where it has one, else that of the lab's own image."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from support.captures import Dissect
from support.containers import own_image

from looplab.capture.segments import tshark_command

IMAGE = own_image("capture")
LIMIT_S = 60


@pytest.fixture(scope="session")
def dissect() -> Dissect:
    """The lines that tshark makes of a capture."""
    here = shutil.which("tshark") is not None
    there = (
        shutil.which("docker") is not None
        and not subprocess.run(
            ["docker", "image", "inspect", IMAGE], capture_output=True, timeout=LIMIT_S, check=False
        ).returncode
    )
    if not here and not there:
        pytest.fail(f"neither tshark nor the image {IMAGE} is here: ./lab setup builds it")

    def run(capture: Path) -> list[str]:
        container = [*("docker", "run", "--rm", "--interactive", "--network", "none", "--entrypoint"), "tshark", IMAGE]
        words = tshark_command(Path("-"), 1883)
        command = words if here else [*container, *words[1:]]
        with capture.open("rb") as file:
            done = subprocess.run(command, stdin=file, capture_output=True, timeout=LIMIT_S, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode().splitlines()

    return run
