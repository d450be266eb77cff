"""rpi/compose.yaml as `docker compose` reads it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from support.places import ROOT

RPI = ROOT / "rpi"
pytestmark = pytest.mark.engine
SET_THERE = [line.partition("=")[0] for line in (RPI / ".env.example").read_text().splitlines() if "=" in line]


def test_docker_compose_takes_it(tmp_path: Path) -> None:
    shutil.copy(RPI / "compose.yaml", tmp_path)
    clean = {name: value for name, value in os.environ.items() if name not in {*SET_THERE, "COMPOSE_ENV_FILES"}}

    def config(*words: str) -> subprocess.CompletedProcess[str]:
        command = ["docker", "compose", "-f", str(tmp_path / "compose.yaml"), "config", *words]
        return subprocess.run(command, env=clean, capture_output=True, text=True, timeout=60, check=False)

    missing = config()
    assert missing.returncode != 0
    assert "write BROKER_HOST=" in missing.stderr
    (tmp_path / ".env").write_text("BROKER_HOST=192.168.1.10\n")
    assert config("--quiet").returncode == 0, config().stderr
