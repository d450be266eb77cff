"""What a release rests on: every image of ours baked for every architecture, small and whole."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from support.containers import base_image, compose_services, docker, own_image
from support.places import ROOT
from support.wire import call

from looplab import __version__
from looplab.experiments.registry import EXPERIMENTS
from looplab.lab.checkout import Lab
from looplab.lab.commands.test import OWN_BROKERS
from looplab.lab.image_names import BASE_IMAGE, name_of
from looplab.lab.scenarios import every

VARIABLES = ("LAB_REGISTRY", "LAB_TAG", "BASE_IMAGE", "PLATFORMS", "REVISION")
# As scripts/install-compose does: the one file out of trixie's package.
UNPACK = """cd /tmp && apt-get -qq update && apt-get -qq -o APT::Sandbox::User=root download docker-buildx &&
dpkg-deb -x docker-buildx_*.deb buildx"""
BUILDX = "/tmp/buildx/usr/libexec/docker/cli-plugins/docker-buildx"
PLATFORMS = ["linux/amd64", "linux/arm64", "linux/arm/v7"]
pytestmark = pytest.mark.engine

# What there is for: Python's own root is 43 MB.
# A Java runtime; Python with gevent; seven Go programs of 40 to 110 MB with PostgreSQL, NATS, Redis and nginx.
MOST_MB = {"report": 350, "stress": 15, "robot": 40, "flood": 15, "asip_java": 110, "devices": 70, "magistrala": 480}
# What an image imports beside the modules of the lab in it; these two rooms run in images of their own alone.
IMPORTED = {
    "bridge": [],
    "link": ["looplab.link.__main__", "looplab.link.nfqueue", "netfilterqueue", "nftables"],
    "capture": ["looplab.capture.__main__", "looplab.capture.segments", "dpkt"],
    "magistrala": ["looplab.experiments.middleware.agent.__main__"],
    "sqlclient": ["looplab.experiments.twin.controller", "looplab.experiments.twin.instance.worker"],
}
# gevent replaces the standard library's sockets: what else the lab has is not imported beside it.
DEVICES = [
    "looplab.experiments.middleware.devices.__main__",
    "looplab.experiments.middleware.controller",
    "looplab.experiments.middleware.systems.magistrala.client",
    "psycopg",
]
# Experiments with images of their own need packages that no other image has.
OWN_ALONE = tuple(f"{EXPERIMENTS[name].package}." for name in ("asip", "middleware", "twin"))
IMPORT_ALL = f"""
import importlib, pkgutil, sys, looplab
found = [module.name for module in pkgutil.walk_packages(looplab.__path__, "looplab.")]
own_alone = {("looplab.capture.", "looplab.link.", *OWN_ALONE)}
names = [name for name in found if not name.startswith(own_alone) and not name.endswith("__main__")]
for name in names + sys.argv[1:]:
    importlib.import_module(name)
assert not set(found) & {{"looplab.lab", "looplab.exercises", "looplab.report"}}, found
print("imported")
"""


@pytest.fixture(scope="module")
def buildx(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which `docker buildx` runs, which Debian's engine lacks, and none of VARIABLES is set."""
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    if subprocess.run(["docker", "buildx", "version"], capture_output=True, check=False).returncode:
        settings = tmp_path_factory.mktemp("docker")
        container = docker("create", base_image(), "sh", "-c", UNPACK)
        try:
            docker("start", "--attach", container, timeout_s=300)
            (settings / "cli-plugins").mkdir()
            docker("cp", f"{container}:{BUILDX}", str(settings / "cli-plugins"))
        finally:
            docker("rm", "--force", container)
        environment["DOCKER_CONFIG"] = str(settings)
    return environment


def own_builds() -> dict[str, tuple[str, str, str]]:
    """{image: (context, Dockerfile, stage)} of every image that Compose builds, on this machine and on the Pi."""
    found: dict[str, tuple[str, str, str]] = {}
    rpi = ["--file", "rpi/compose.yaml"]
    asked = ({}, *({"BROKER": broker} for broker in OWN_BROKERS), {"CLIENTS": "printed"})
    for chosen, options in (({}, rpi), *((one, []) for one in asked)):
        choices = {"BROKER": "mosquitto", "LINK": "wifi", "BROKER_HOST": "192.0.2.1", **chosen}
        # Whatever .env pins.
        choices |= {"LAB_REGISTRY": "", "LAB_TAG": __version__, "FLOOD_IMAGE": ""}
        for service in compose_services(*options, **choices).values():
            if build := service.get("build"):
                context = os.path.relpath(build["context"], ROOT)
                found[service["image"]] = (context, build.get("dockerfile", "Dockerfile"), build.get("target", ""))
    return found


def test_every_image_of_ours_is_baked_as_compose_builds_it(buildx: dict[str, str]) -> None:
    """For all architectures."""
    command = ("docker", "buildx", "bake", "--file", "docker-bake.hcl", "--print")
    bake = json.loads(call(*command, cwd=ROOT, env=buildx))["target"]
    baked = {
        tag: (target["context"], target["dockerfile"], target.get("target", ""))
        for target in bake.values()
        for tag in target["tags"]
    }
    assert baked == own_builds()
    for name, target in bake.items():
        assert (target["platforms"], target["args"]["BASE_IMAGE"]) == (PLATFORMS, BASE_IMAGE), name
    # A release without the thesis's Python would print other figures.
    assert bake["printed"]["args"]["PRINTED"] == "required"


def test_own_images_are_small_and_hold_what_their_files_need() -> None:
    """In MB, uncompressed; and every module of the lab that an image holds can be imported there."""
    names = ["report", *map(name_of, Lab(ROOT, scenarios=list(every(ROOT).values())).images()[0])]
    found = {name: int(docker("image", "inspect", "--format", "{{.Size}}", own_image(name))) / 1e6 for name in names}
    assert {name: size for name, size in found.items() if size > MOST_MB.get(name, 60)} == {}
    for name, modules in IMPORTED.items():
        words = ("--rm", "--network", "none", "--entrypoint", "python3", own_image(name), "-c", IMPORT_ALL)
        assert docker("run", *words, *modules).split() == ["imported"], name
    words = ("--rm", "--network", "none", "--entrypoint", "python3", own_image("devices"), "-c")
    assert docker("run", *words, f"import {', '.join(DEVICES)}; print('imported')") == "imported"


def test_an_image_holds_all_that_its_program_imports(tmp_path: Path) -> None:
    """BuildKit builds it; the other images here are the classic builder's, which Debian's engine has alone."""
    tag = "looplab-test/bridge:buildkit"
    arguments = {"BASE_IMAGE": base_image()}
    build = {"context": str(ROOT), "dockerfile": "images/base/Dockerfile", "target": "bridge", "args": arguments}
    (tmp_path / "compose.yaml").write_text(json.dumps({"services": {"bridge": {"image": tag, "build": build}}}))
    command = ("docker", "compose", "--project-name", "looplab-test", "build", "bridge")
    call(*command, cwd=tmp_path, env={**os.environ, "DOCKER_BUILDKIT": "1"}, timeout_s=540)
    assert docker("run", "--rm", "--entrypoint", "python3", tag, "-c", IMPORT_ALL).split() == ["imported"]
