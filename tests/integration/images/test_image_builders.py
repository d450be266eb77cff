"""BuildKit puts the same program into an image as the classic builder, which Debian's engine has alone."""

import json
import os
from pathlib import Path

import pytest
from support.containers import base_image, docker
from support.places import ROOT
from support.wire import call

from looplab.lab.docker.own_images import IN_IMAGES

pytestmark = pytest.mark.engine

LIST = """
import pathlib
root = pathlib.Path("/opt/looplab/looplab")
print(*sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and path.suffix != ".pyc"))
"""
# What no container runs.
ELSEWHERE = ("report/", "exercise.py")


def in_the_checkout() -> list[str]:
    programs = (".py", ".toml", ".conf")
    rooms = [path for room in IN_IMAGES for path in (ROOT / "src/looplab" / room).rglob("*") if path.suffix in programs]
    names = [str(path.relative_to(ROOT / "src/looplab")) for path in [*rooms, *(ROOT / "src/looplab").glob("*.py")]]
    wanted = [name for name in names if not any(part in name for part in ELSEWHERE)]
    return sorted([*wanted, "experiments/loop/report/published/thesis_tables.csv"])


def test_an_image_holds_all_that_its_program_imports(tmp_path: Path) -> None:
    tag = "looplab-test/bridge:buildkit"
    arguments = {"BASE_IMAGE": base_image()}
    build = {"context": str(ROOT), "dockerfile": "images/base/Dockerfile", "target": "bridge", "args": arguments}
    (tmp_path / "compose.yaml").write_text(json.dumps({"services": {"bridge": {"image": tag, "build": build}}}))
    command = ("docker", "compose", "--project-name", "looplab-test", "build", "bridge")
    call(*command, cwd=tmp_path, env={**os.environ, "DOCKER_BUILDKIT": "1"}, timeout_s=540)
    assert docker("run", "--rm", "--entrypoint", "python3", tag, "-c", LIST).split() == in_the_checkout()
