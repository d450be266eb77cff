"""An image that copies a part of the package has all that its program imports."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.places import ROOT

PACKAGE = "/opt/looplab/"


@pytest.mark.parametrize(
    ("image", "program"),
    [
        ("capture", "looplab.capture.__main__"),
        ("link", "looplab.link.__main__"),
        ("magistrala", "looplab.experiments.middleware.agent.__main__"),
    ],
)
def test_a_program_has_the_modules_that_it_imports(image: str, program: str, tmp_path: Path) -> None:
    dockerfile = (ROOT / "images" / image / "Dockerfile").read_text().replace("\\\n", " ")
    copies = [line.split() for line in re.findall(rf"^COPY (src/\S.* {PACKAGE}\S*)$", dockerfile, re.MULTILINE)]
    for *sources, target in copies:
        folder = tmp_path / target.removeprefix(PACKAGE)
        folder.mkdir(parents=True, exist_ok=True)
        for source in sources:
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, folder, dirs_exist_ok=True)
            else:
                shutil.copy(ROOT / source, folder)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    found = f"import {program}, looplab; print(looplab.__file__)"
    done = subprocess.run([sys.executable, "-c", found], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.startswith(str(tmp_path)), done.stderr
