"""Builds: their progress, and what a failing one shows."""

import time
from pathlib import Path

import pytest
from support import host_fakes as fakes

from looplab.errors import MachineError
from looplab.lab.docker.builds import build_all, build_of, build_of_own


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ("Err:1 Temporary failure resolving 'mirror.test'", "mirror cannot be reached"),
        ("write /x: no space left on device", "docker system df"),
        ("--- FAIL", "docker build --tag an/image:1"),
    ],
)
def test_a_failing_build_shows_its_last_lines(
    docker: fakes.Docker, tmp_path: Path, capsys: pytest.CaptureFixture[str], said: str, remedy: str
) -> None:
    docker.fails("build", f"Step 2/3 : RUN x\n{said}\n")
    with pytest.raises(MachineError) as caught:
        build_all(tmp_path, [build_of(tmp_path, "an/image:1")])
    assert remedy in caught.value.remedy
    assert said in capsys.readouterr().err


def test_a_failing_build_by_compose_names_its_command(
    docker: fakes.Docker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    docker.fails("compose", "Step 2/3 : RUN go test\n--- FAIL\n")
    with pytest.raises(MachineError) as caught:
        build_all(tmp_path, [build_of_own({"looplab/bridge:1": "bridge"}, ["scenario1"], {})])
    assert "--- FAIL" in capsys.readouterr().err
    assert caught.value.remedy.endswith("docker compose --profile scenario1 build bridge")


def test_a_build_that_fails_ends_the_others(programs: fakes.Programs, tmp_path: Path) -> None:
    programs.script("docker", 'case "$*" in *bad*) exit 1 ;; esac', "exec /bin/sleep 60")
    begun_s = time.monotonic()
    with pytest.raises(MachineError, match="Building bad:1 failed"):
        build_all(tmp_path, [build_of(tmp_path, name) for name in ("bad:1", "slow:1")])
    assert time.monotonic() - begun_s < 30
