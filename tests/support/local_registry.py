"""A container registry on loopback: Debian's docker-registry, unpacked only, because its package would start one."""

import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from looplab.lab.programs import call
from support.containers import docker
from support.parts import HOST, free_port
from support.waiting import until

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


def serve_registry(folder: Path) -> Iterator[LocalRegistry]:
    """One registry for a fixture to yield; fails where its program cannot be had."""
    program = unpack_registry(folder)
    if program is None:
        pytest.fail(f"no mirror gives Debian's package {PACKAGE}")
    registry = LocalRegistry(program, folder)
    try:
        yield registry
    finally:
        registry.close()
