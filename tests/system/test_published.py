"""A scenario from images out of a registry: named by LAB_REGISTRY and LAB_TAG, pulled by ./lab run.

Minutes of packing and unpacking layers, so only with LAB_FROM_REGISTRY set.
"""

import re
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.containers import docker, own_image
from support.e2e_lab import Lab
from support.parts import HOST
from support.ports import free_port
from support.run_checks import check_run
from support.waiting import until

from looplab.lab.programs import call

PACKAGE = "docker-registry"


def unpack_registry(folder: Path) -> Path | None:
    """The program out of Debian's package, None where no mirror gives it."""
    here = shutil.which(PACKAGE)
    if here:
        return Path(here)
    fetch = ["apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", PACKAGE]
    if not call(fetch, directory=str(folder), timeout_s=120).good:
        return None
    (archive,) = folder.glob(f"{PACKAGE}_*.deb")
    subprocess.run(["dpkg-deb", "-x", str(archive), str(folder)], check=True)
    return folder / "usr/bin" / PACKAGE


class LocalRegistry:
    """Everything it has lies in `folder`; engines take a registry on loopback without TLS."""

    def __init__(self, program: Path, folder: Path) -> None:
        self.address = f"{HOST}:{free_port()}"
        settings = folder / "registry.yml"
        settings.write_text(
            f"version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {folder / 'data'}}}}}\n"
            f"http: {{addr: {self.address}}}\n"
        )
        with (folder / "registry.log").open("wb") as log:
            command = [str(program), "serve", str(settings)]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until(self._answers, "the registry", 30)

    def put(self, image: str, name: str) -> str:
        """Push the local `image` as `name` (repository:tag) and forget that name here; its reference."""
        reference = f"{self.address}/{name}"
        docker("tag", image, reference)
        docker("push", "--quiet", reference, timeout_s=300)
        docker("rmi", reference)
        return reference

    def close(self) -> None:
        """End it, and take away what the engine has of it."""
        self._process.terminate()
        self._process.wait(10)
        listing = docker("image", "ls", "--digests", "--format", "{{.Repository}} {{.Tag}} {{.Digest}}")
        for repository, tag, digest in (line.split() for line in listing.splitlines()):
            if repository.startswith(f"{self.address}/"):
                docker("rmi", f"{repository}@{digest}" if tag == "<none>" else f"{repository}:{tag}")

    def _answers(self) -> bool:
        assert self._process.poll() is None, "docker-registry ended"
        try:
            with urllib.request.urlopen(f"http://{self.address}/v2/", timeout=1) as reply:
                return bool(reply.status == 200)
        except OSError:
            return False


# No image of that tag is here.
RELEASE = "9.9.9-published"
# What the nine scenarios start.
STARTED = ("prepare", "treatments", "controller", "bridge", "exporter", "robot", "flood", "stress", "report")
pytestmark = pytest.mark.flag("LAB_FROM_REGISTRY")


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalRegistry]:
    """It has what scenario 0 starts."""
    folder = tmp_path_factory.mktemp("registry")
    program = unpack_registry(folder)
    if program is None:
        pytest.fail(f"no mirror gives Debian's package {PACKAGE}")
    registry = LocalRegistry(program, folder)
    try:
        for name in STARTED:
            registry.put(own_image(name), f"looplab/{name}:{RELEASE}")
        yield registry
    finally:
        registry.close()


def use(lab: Lab, address: str) -> None:
    """Name the release of a registry in .env."""
    lab.environment.pop("LAB_TAG", None)
    text = (lab.root / ".env").read_text()
    for name, value in (("LAB_REGISTRY", f"{address}/"), ("LAB_TAG", RELEASE)):
        text = re.sub(rf"^{name}=.*$", f"{name}={value}", text, flags=re.MULTILINE)
    (lab.root / ".env").write_text(text)


def test_a_scenario_runs_from_a_registry(own_lab: Lab, registry: LocalRegistry) -> None:
    use(own_lab, registry.address)
    ran = own_lab.run("run", "scenario0", "--quick", "--messages", "25", code=0)
    assert "Building" not in ran.stderr
    folder, run = own_lab.newest()
    check_run(folder, run)
    images = run["environment"]["images"]
    # Those that scenario 0 starts, of those that the registry has.
    started = {*STARTED} & images.keys()
    assert {"bridge", "controller", "exporter", "prepare", "treatments"} <= started
    for name in started:
        image = images[name]
        assert image["reference"] == f"{registry.address}/looplab/{name}:{RELEASE}"
        assert image["id"] == docker("image", "inspect", "--format", "{{.Id}}", own_image(name))
        digest = docker("image", "inspect", "--format", '{{join .RepoDigests " "}}', image["reference"])
        assert f"{registry.address}/looplab/{name}@{image['digest']}" in digest.split()
