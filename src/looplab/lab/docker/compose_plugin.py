"""Get a Docker Compose that is new enough: from the host's own apt, else out of a trixie container."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from pathlib import Path

from looplab.errors import EXIT_MACHINE, LabError
from looplab.lab.docker.versions import OLDEST_COMPOSE, parse_version, show_version
from looplab.lab.programs import call

BASE_IMAGE = "debian:trixie-slim"
SYSTEM_PLUGINS = Path("/usr/local/lib/docker/cli-plugins")
# Where Debian's package keeps the plugin; the file is statically enough linked to run on other releases.
PLUGIN_IN_PACKAGE = "/usr/libexec/docker/cli-plugins/docker-compose"
UNPACKED = "/tmp/compose"
# Packages that bring the plugin, by preference: Ubuntu's, Docker's own repository, Debian's from trixie on.
APT_PACKAGES = ("docker-compose-v2", "docker-compose-plugin", "docker-compose")

# The package's own dependencies (docker-cli and more) are not wanted: only the one file is.
_UNPACK_SCRIPT = f"""set -e
cd /tmp
apt-get -qq update
apt-get -qq -o APT::Sandbox::User=root download docker-compose
mkdir {UNPACKED}
dpkg-deb -x docker-compose_*.deb {UNPACKED}
"""


def plugin_directory() -> Path:
    """For everybody when root installs, else for this user alone."""
    if os.geteuid() == 0:
        return SYSTEM_PLUGINS
    return Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker") / "cli-plugins"


def apt_candidate() -> str | None:
    """The apt package that brings a Compose new enough, if any."""
    for package in APT_PACKAGES:
        policy = call(["apt-cache", "policy", package])
        for line in policy.stdout.splitlines():
            key, _, value = line.strip().partition(": ")
            # A Debian epoch ("1:2.3") would be read as the version itself.
            version = parse_version(value.rpartition(":")[2]) if key == "Candidate" else None
            if version is not None and version >= OLDEST_COMPOSE:
                return package
    return None


def install_from_container(directory: Path, image: str = BASE_IMAGE) -> Path:
    """Download trixie's package in a container, copy the plugin out, keep it only if it runs here."""
    name = f"looplab-compose-{uuid.uuid4().hex[:8]}"
    with tempfile.TemporaryDirectory(prefix="looplab-compose-") as scratch:
        copy = Path(scratch) / "docker-compose"
        try:
            unpacked = call(
                ["docker", "run", "--name", name, "--network", "bridge", image, "sh", "-c", _UNPACK_SCRIPT],
                timeout_s=300,
            )
            if not unpacked.good:
                raise LabError(
                    f"docker-compose could not be downloaded in a {image} container: {unpacked.said}",
                    "Check the network, or bring the plugin file from another machine to "
                    f"{directory}/docker-compose and make it executable.",
                    EXIT_MACHINE,
                )
            # Copied through the engine, not a bind mount: works with rootless and remote engines too.
            copied = call(["docker", "cp", f"{name}:{UNPACKED}{PLUGIN_IN_PACKAGE}", str(copy)], timeout_s=60)
            if not copied.good:
                raise LabError(f"The Compose plugin could not be copied out: {copied.said}", "", EXIT_MACHINE)
        finally:
            call(["docker", "rm", "--force", name])
        _require_new_enough(copy)
        return _put_in_place(copy, directory)


def _require_new_enough(plugin: Path) -> None:
    plugin.chmod(0o755)
    answer = call([str(plugin), "version", "--short"])
    version = parse_version(answer.stdout) if answer.good else None
    if version is None or version < OLDEST_COMPOSE:
        raise LabError(
            f"The downloaded Compose does not serve here: {answer.said}",
            f"Install Docker Compose {show_version(OLDEST_COMPOSE)} or later by hand.",
            EXIT_MACHINE,
        )


def _put_in_place(plugin: Path, directory: Path) -> Path:
    """Rename within the target directory, so that nobody ever runs half a file."""
    target = directory / "docker-compose"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        half = directory / f".docker-compose.{os.getpid()}"
        shutil.copyfile(plugin, half)
        half.chmod(0o755)
        half.replace(target)
    except OSError as problem:
        raise LabError(
            f"The Compose plugin could not be written to {target}: {problem.strerror}",
            f"Make {directory} writable for this user.",
            EXIT_MACHINE,
        ) from problem
    return target
