"""What a release rests on: every image of ours baked for every architecture, and none without its security updates."""

from __future__ import annotations

import json
import os
import re
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from containers import docker

from looplab.host.images import BASE_IMAGE

ROOT = Path(__file__).resolve().parents[2]
PLATFORMS = ["linux/amd64", "linux/arm64", "linux/arm/v7"]
pytestmark = pytest.mark.engine

# As Compose is had (host/compose_plugin.py): the one file out of trixie's package.
UNPACK = """cd /tmp && apt-get -qq update && apt-get -qq -o APT::Sandbox::User=root download docker-buildx &&
dpkg-deb -x docker-buildx_*.deb buildx"""
BUILDX = "/tmp/buildx/usr/libexec/docker/cli-plugins/docker-buildx"


@pytest.fixture(scope="module")
def bake(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `docker buildx bake --print` makes of the file, default group."""
    settings = tmp_path_factory.mktemp("docker")
    environment = {name: value for name, value in os.environ.items() if name not in ("LAB_TAG", "BASE_IMAGE")}
    if subprocess.run(["docker", "buildx", "version"], capture_output=True, check=False).returncode:
        container = docker("create", BASE_IMAGE, "sh", "-c", UNPACK)
        try:
            docker("start", "--attach", container, timeout_s=300)
            (settings / "cli-plugins").mkdir()
            docker("cp", f"{container}:{BUILDX}", str(settings / "cli-plugins"))
        finally:
            docker("rm", "--force", container)
        environment["DOCKER_CONFIG"] = str(settings)
    command = ["docker", "buildx", "bake", "--file", "docker-bake.hcl", "--print"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["target"]


def own_builds() -> dict[str, tuple[str, str, str]]:
    """{image: (context, Dockerfile, stage)} of every image that Compose builds, on this machine and on the Pi."""
    found: dict[str, tuple[str, str, str]] = {}
    for options in ([], ["--file", "rpi/compose.yaml"]):
        command = ["docker", "compose", *options, "--profile", "*", "config", "--format", "json"]
        environment = {**os.environ, "COMPOSE_ENV_FILES": ".env", "LINK": "wifi", "BROKER_HOST": "192.0.2.1"}
        environment.pop("LAB_TAG", None)
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
        for service in json.loads(done.stdout)["services"].values():
            if build := service.get("build"):
                context = os.path.relpath(build["context"], ROOT)
                found[service["image"]] = (context, build.get("dockerfile", "Dockerfile"), build.get("target", ""))
    return found


def test_every_image_of_ours_is_baked_as_compose_builds_it(bake: dict[str, Any]) -> None:
    baked = {
        tag: (target["context"], target["dockerfile"], target.get("target", ""))
        for target in bake.values()
        for tag in target["tags"]
    }
    # The flood is built by ./lab, where inovex/mqtt-stresser cannot be had, and by no Compose file.
    assert baked.pop("looplab/flood:0.1.0") == ("images/flood", "Dockerfile", "")
    assert baked == own_builds()


def test_every_image_is_baked_for_all_architectures(bake: dict[str, Any]) -> None:
    for name, target in bake.items():
        assert target["platforms"] == PLATFORMS, name
        assert target["args"] == {"BASE_IMAGE": BASE_IMAGE}, name


@pytest.mark.parametrize("file", sorted(ROOT.glob("images/*/Dockerfile")), ids=lambda path: path.parent.name)
def test_a_dockerfile_takes_any_base_and_names_no_architecture(file: Path) -> None:
    text = file.read_text()
    bases = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    stages = re.findall(r"^FROM \S+ AS (\S+)", text, re.MULTILINE)
    assert set(bases) <= {"${BASE_IMAGE}", "scratch", *stages}
    assert f"ARG BASE_IMAGE={BASE_IMAGE}" in text
    code = [line for line in text.splitlines() if not line.startswith("#")]
    assert not re.search(r"amd64|x86[_-]64|arm64|aarch64|armhf", "\n".join(code))


def test_images_have_the_security_updates_of_their_day() -> None:
    """A base made within the hour lacks none; an older one is told to be made anew."""
    tag = os.environ.get("LAB_TAG", "0.1.0")
    scan = [str(ROOT / "scripts/scan-images"), f"looplab/bridge:{tag}"]
    done = subprocess.run(scan, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode in (0, 1), done.stderr
    made = datetime.fromisoformat(docker("image", "inspect", "--format", "{{.Created}}", BASE_IMAGE)[:19])
    age = datetime.now(UTC) - made.replace(tzinfo=UTC)
    if done.returncode == 1 and age > timedelta(hours=1):
        pytest.skip(f"{BASE_IMAGE} is {age} old; {done.stdout.strip()}")
    assert done.returncode == 0, done.stdout
