"""docker buildx, which Debian's engine does not have."""

import os
import subprocess

import pytest
from support.containers import base_image, docker

VARIABLES = ("LAB_REGISTRY", "LAB_TAG", "BASE_IMAGE", "PLATFORMS", "REVISION")
# As scripts/install-compose does: the one file out of trixie's package.
UNPACK = """cd /tmp && apt-get -qq update && apt-get -qq -o APT::Sandbox::User=root download docker-buildx &&
dpkg-deb -x docker-buildx_*.deb buildx"""
BUILDX = "/tmp/buildx/usr/libexec/docker/cli-plugins/docker-buildx"


@pytest.fixture(scope="session")
def buildx(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which `docker buildx` runs and none of the file's variables is set."""
    settings = tmp_path_factory.mktemp("docker")
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    if subprocess.run(["docker", "buildx", "version"], capture_output=True, check=False).returncode:
        container = docker("create", base_image(), "sh", "-c", UNPACK)
        try:
            docker("start", "--attach", container, timeout_s=300)
            (settings / "cli-plugins").mkdir()
            docker("cp", f"{container}:{BUILDX}", str(settings / "cli-plugins"))
        finally:
            docker("rm", "--force", container)
        environment["DOCKER_CONFIG"] = str(settings)
    return environment
