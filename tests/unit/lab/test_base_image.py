"""The base image out of Debian's packages, with programs that stand in for mmdebstrap and the engine."""

import os

import pytest
from support import host_fakes as fakes

from looplab.errors import LabError
from looplab.lab.programs import run_script

IMAGE = "debian:trixie-slim"
SECURITY = "deb http://house.test/debian-security trixie-security main"


@pytest.fixture
def programs(programs: fakes.Programs, monkeypatch: pytest.MonkeyPatch) -> fakes.Programs:
    monkeypatch.setenv("PATH", f"{programs.folder}:{os.defpath}:/usr/sbin:/sbin")
    monkeypatch.setenv("LAB_DEBIAN_MIRROR", "http://house.test/debian/")
    programs.add("id", {"-u": ("0\n", "", 0)})
    programs.add("docker", {"import*": ("", "", 0)})
    programs.add("apt-get", {"*": ("", "", 0)})
    return programs


def make_base_image() -> str:
    return run_script("make-base-image", IMAGE, title="Building")


def fake_mmdebstrap(programs: fakes.Programs, script: str) -> None:
    path = programs.folder / "mmdebstrap"
    path.write_text(f'#!/bin/sh\nsources=$(cat)\necho "$sources" >>{programs.folder}/sources\n{script}\n')
    path.chmod(0o755)


def test_the_base_takes_security_updates_and_is_imported(programs: fakes.Programs) -> None:
    fake_mmdebstrap(programs, "echo I: done")
    make_base_image()
    sources = (programs.folder / "sources").read_text().splitlines()
    assert sources == ["deb http://house.test/debian trixie main", SECURITY]
    (imported,) = programs.calls("docker")
    assert imported.endswith("root.tar debian:trixie-slim")
    assert "LABEL looplab.origin=built" in imported


def test_a_mirror_without_security_updates_serves_and_is_named(programs: fakes.Programs) -> None:
    fake_mmdebstrap(programs, 'case $sources in *security*) echo "E: Failed to fetch it"; exit 25 ;; esac')
    said = make_base_image()
    assert len(programs.calls("docker")) == 1
    assert said.startswith("No security updates for the base image: http://house.test/debian-security ")


@pytest.mark.parametrize(
    ("script", "user", "reason", "remedy"),
    [
        ("echo 'E: X is not signed.'; echo 'E: mmdebstrap failed to run'; exit 25", 0, "X is not signed", "_MIRROR`"),
        ("exit 1", 0, "mmdebstrap failed", "`LAB_DEBIAN_MIRROR`"),
        ("", 1000, "needs root", "sudo ./lab setup"),
    ],
)
def test_a_base_that_cannot_be_built_gives_reason_and_remedy(
    programs: fakes.Programs, script: str, user: int, reason: str, remedy: str
) -> None:
    programs.add("id", {"-u": (f"{user}\n", "", 0)})
    fake_mmdebstrap(programs, script)
    with pytest.raises(LabError, match=reason) as caught:
        make_base_image()
    assert remedy in caught.value.remedy
    assert programs.calls("docker") == []
