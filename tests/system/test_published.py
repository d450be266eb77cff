"""A scenario from images out of a registry: named by LAB_REGISTRY and LAB_TAG, pulled by ./lab run.

Minutes of packing and unpacking layers, so only with LAB_FROM_REGISTRY set.
"""

import re
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from support.containers import docker, own_image
from support.e2e_lab import Lab
from support.parts import HOST, Child
from support.ports import free_port
from support.run_checks import check_run
from support.waiting import until
from support.wire import call

# No image of that tag is here.
RELEASE = "9.9.9-published"
# What the nine scenarios start.
STARTED = ("prepare", "treatments", "controller", "bridge", "exporter", "robot", "flood", "stress", "report")
pytestmark = pytest.mark.flag("LAB_FROM_REGISTRY")


def registry_program(folder: Path) -> Path:
    """Return the program out of Debian's package, which is not installed."""
    call("apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", "docker-registry", cwd=folder, timeout_s=120)
    (archive,) = folder.glob("docker-registry_*.deb")
    call("dpkg-deb", "-x", str(archive), str(folder))
    return folder / "usr/bin/docker-registry"


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a registry with what scenario 0 starts; engines take one on loopback without TLS."""
    folder = tmp_path_factory.mktemp("registry")
    address, settings = f"{HOST}:{free_port()}", folder / "registry.yml"
    settings.write_text(
        f"version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {folder / 'data'}}}}}\n"
        f"http: {{addr: {address}}}\n"
    )
    program = registry_program(folder)
    with closing(Child([str(program), "serve", str(settings)], folder / "registry.log")):
        until(lambda: urllib.request.urlopen(f"http://{address}/v2/", timeout=1).status == 200, "the registry")
        for name in STARTED:
            reference = f"{address}/looplab/{name}:{RELEASE}"
            docker("tag", own_image(name), reference)
            docker("push", "--quiet", reference, timeout_s=300)
            docker("rmi", reference)
        yield address
    listing = docker("image", "ls", "--digests", "--format", "{{.Repository}} {{.Tag}} {{.Digest}}")
    for repository, tag, digest in (line.split() for line in listing.splitlines()):
        if repository.startswith(f"{address}/"):
            docker("rmi", f"{repository}@{digest}" if tag == "<none>" else f"{repository}:{tag}")


def test_a_scenario_runs_from_a_registry(own_lab: Lab, registry: str) -> None:
    own_lab.environment.pop("LAB_TAG", None)
    text = (own_lab.root / ".env").read_text()
    for name, value in (("LAB_REGISTRY", f"{registry}/"), ("LAB_TAG", RELEASE)):
        text = re.sub(rf"^{name}=.*$", f"{name}={value}", text, flags=re.MULTILINE)
    (own_lab.root / ".env").write_text(text)
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
        assert image["reference"] == f"{registry}/looplab/{name}:{RELEASE}"
        assert image["id"] == docker("image", "inspect", "--format", "{{.Id}}", own_image(name))
        digest = docker("image", "inspect", "--format", '{{join .RepoDigests " "}}', image["reference"])
        assert f"{registry}/looplab/{name}@{image['digest']}" in digest.split()
