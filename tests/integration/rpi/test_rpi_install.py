"""rpi/install.sh --check: what it decides on machines that are not here. Model, architecture and release are faked."""

import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from support.places import ROOT

from looplab.lab.docker.engine import OLDEST_COMPOSE, show_version

INSTALL = ROOT / "rpi" / "install.sh"
DPKG = shutil.which("dpkg")
pytestmark = pytest.mark.skipif(DPKG is None, reason="no dpkg here: install.sh compares versions by it")

TRIXIE = 'PRETTY_NAME="Debian GNU/Linux 13 (trixie)"\nID=debian\nVERSION_ID="13"\n'
BOOKWORM = 'PRETTY_NAME="Raspbian GNU/Linux 12 (bookworm)"\nID=raspbian\nID_LIKE=debian\nVERSION_ID="12"\n'
FEDORA = 'PRETTY_NAME="Fedora Linux 42"\nID=fedora\nVERSION_ID="42"\n'
OLDEST = show_version(OLDEST_COMPOSE)
PI4 = "Raspberry Pi 4 Model B Rev 1.4\0"

Install = Callable[..., subprocess.CompletedProcess[str]]


def program(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def place_file(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def rpi(tmp_path: Path) -> Path:
    """A folder rpi/ as it comes, beside the file of a pairing."""
    (tmp_path / "pairing.env").write_text("BROKER_HOST=192.168.1.10\nBROKER_PORT=1883\n")
    return shutil.copytree(INSTALL.parent, tmp_path / "rpi", ignore=shutil.ignore_patterns(".env", "secrets"))


def launch(rpi: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the script in the folder above `rpi`, whose programs/ come first."""
    place = rpi.parent
    environment = {"PATH": f"{place}/programs:{os.environ['PATH']}", "LAB_HOST": str(place)}
    command = ["sh", str(rpi / "install.sh"), *words]
    return subprocess.run(command, env=environment, cwd=place, capture_output=True, text=True, timeout=30, check=False)


@pytest.fixture
def install(tmp_path: Path, rpi: Path) -> Install:
    """Check with these words more on the machine that the keywords tell of."""
    programs = tmp_path / "programs"
    usual = {"model": PI4, "dpkg": "arm64", "uname": "aarch64", "system": TRIXIE, "compose": ""}

    def run(*words: str, **facts: str) -> subprocess.CompletedProcess[str]:
        is_here = {**usual, **facts}
        compose = is_here["compose"]
        program(programs, "dpkg", f'[ "$1" = --print-architecture ] && echo {is_here["dpkg"]} || exec {DPKG} "$@"')
        program(programs, "uname", f"echo {is_here['uname']}")
        answer = f'[ -n "{compose}" ] && [ "$1 $2" = "compose version" ] && echo {compose} && exit 0; exit 1'
        program(programs, "docker", answer)
        place_file(tmp_path / "proc/device-tree/model", is_here["model"])
        place_file(tmp_path / "etc/os-release", is_here["system"])
        before = sorted(tmp_path.rglob("*"))
        done = launch(rpi, "--check", "--pairing", "pairing.env", *words)
        assert sorted(tmp_path.rglob("*")) == before, "--check changes nothing"
        return done

    return run


@pytest.mark.parametrize(("dpkg", "uname"), [("arm64", "aarch64"), ("armhf", "armv7l"), ("armhf", "aarch64")])
def test_a_fresh_pi_gets_everything(install: Install, dpkg: str, uname: str) -> None:
    done = install(dpkg=dpkg, uname=uname)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Raspberry Pi 4 Model B Rev 1.4, {dpkg}, Debian GNU/Linux 13 (trixie)" in done.stdout
    would = [line for line in done.stdout.splitlines() if line.startswith("looplab: would ")]
    for what in (
        "docker.io, docker-cli and docker-compose",
        "udev rule",
        "pairing.env",
        "build localhost/looplab/bridge:",
        "start the bridge",
    ):
        assert any(what in line for line in would), what


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        ({"dpkg": "armhf", "uname": "armv6l", "model": "Raspberry Pi Zero W Rev 1.1\0"}, "ARMv6"),
        ({"dpkg": "riscv64", "uname": "riscv64"}, "no image of the bridge for riscv64"),
        ({"system": BOOKWORM, "dpkg": "armhf"}, f"Compose {OLDEST} is needed"),
        ({"system": BOOKWORM, "compose": "2.24.5"}, f"Compose {OLDEST} is needed"),
        ({"system": FEDORA}, "This is no Debian"),
    ],
)
def test_what_stands_in_the_way_is_named_with_its_remedy(install: Install, facts: dict[str, str], problem: str) -> None:
    done = install(**facts)
    assert done.returncode == 3
    (index,) = [number for number, line in enumerate(done.stdout.splitlines()) if problem in line]
    assert done.stdout.splitlines()[index + 1].startswith("  "), "a remedy"


@pytest.mark.parametrize("compose", [OLDEST, "2.30.0", "v2.40.3"])
def test_a_docker_that_is_here_is_kept(install: Install, compose: str) -> None:
    done = install(system=BOOKWORM, compose=compose)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Docker is here, with Compose {compose.removeprefix('v')}" in done.stdout


OWN = "localhost/looplab/bridge:0.1.0"


def images(path: Path, *names: str, manifest: str = "", **more: str) -> None:
    """An archive as ./lab bundle writes it, with images of these names."""
    manifest = manifest or json.dumps([{"Config": "c.json", "RepoTags": [*names] or [OWN], "Layers": ["layer.tar"]}])
    texts = {"bundle.json": "{}", "manifest.json": manifest, **more}
    with tarfile.open(path, "w:gz") as archive:
        for name, content in {"layer.tar": os.urandom(2000), **{n: t.encode() for n, t in texts.items()}}.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


@pytest.mark.parametrize(
    ("names", "more", "refused"),
    [
        ([OWN, "registry.example.org/lab/looplab/robot:1"], {}, ""),
        (["eclipse-mosquitto:2.0.22"], {}, ""),
        ([OWN, "shop:latest"], {}, "shop:latest"),
        (["looplab/bridge/shop:1"], {}, "looplab/bridge/shop:1"),
        ([], {"manifest": '[{"repotags": ["shop:1"]}]'}, "shop:1"),
        ([], {"manifest": '[{"RepoTag\\u0073": ["shop:1"]}]'}, "a-backslash"),
        ([OWN], {"./manifest.json": "[]"}, "neither a bundle"),
        ([OWN], {"index.json": '{"io.containerd.image.name": "docker.io/library/shop:1"}'}, "shop:1"),
    ],
)
def test_a_file_brings_the_labs_images_alone(
    install: Install, tmp_path: Path, names: list[str], more: dict[str, str], refused: str
) -> None:
    (tmp_path / ".env").write_text("MOSQUITTO_IMAGE=eclipse-mosquitto:2.0.22@sha256:00\n")
    images(tmp_path / "lab.tar", *names, **more)
    done = install("--image", "lab.tar")
    assert (done.returncode, refused in done.stderr) == (2 if refused else 0, True), done.stderr


def test_a_damaged_bundle_or_another_file_is_not_loaded(install: Install, tmp_path: Path) -> None:
    images(tmp_path / "lab.tar")
    content = bytearray((tmp_path / "lab.tar").read_bytes())
    right = hashlib.sha256(content).hexdigest()
    for sum_, code in ((right, 0), ("0" * 64, 3), ("", 0), ("x", 3)):
        done = install("--image", "lab.tar", "--sha256", sum_)
        assert done.returncode == code, sum_
        assert ("would load the image from lab.tar" in done.stdout) == (code == 0)
    # The checksum at its end.
    content[-6] ^= 1
    (tmp_path / "lab.tar").write_bytes(content)
    done = install("--image", "lab.tar")
    assert (done.returncode, "damaged" in done.stderr, "would load" in done.stdout) == (3, True, False), done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="install.sh without --check wants root")
def test_a_pairing_that_cannot_be_written_leaves_nothing_behind(rpi: Path, tmp_path: Path) -> None:
    """As on a full card: no file gets its name."""
    for name, text in (("docker", "echo 2.30.0"), ("udevadm", "exit 1"), ("mv", "exit 1")):
        program(tmp_path / "programs", name, text)
    place_file(tmp_path / "etc/os-release", TRIXIE)
    done = launch(rpi, "--pairing", str(tmp_path / "pairing.env"))
    assert done.returncode == 3, done.stdout + done.stderr
    assert "could not be written" in done.stderr
    assert "df -h" in done.stderr
    assert "paired with" not in done.stdout
    assert [path.name for path in (*rpi.glob(".env*"), *rpi.glob("secrets/*"))] == [".env.example"]
