"""What the lab's own images are called: built here, in a registry (LAB_REGISTRY), pinned by digest (…_RELEASE)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from looplab import __version__
from looplab.errors import EXIT_USAGE, LabError
from looplab.lab.docker.registry import repository_of

NAMES = ("prepare", "treatments", "controller", "bridge", "exporter", "robot", "flood", "link", "capture", "stress")
FOLDER = "looplab"
REGISTRY, TAG, PULL = "LAB_REGISTRY", "LAB_TAG", "LAB_PULL"
DIGEST = r"sha256:[0-9a-f]{64}"
_RELEASE = re.compile(rf"([A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})@{DIGEST}")


def release_variable(name: str) -> str:
    """The variable that holds `tag@sha256:…` of a published image."""
    return f"{name.upper()}_RELEASE"


RELEASES = tuple(map(release_variable, NAMES))


def own_reference(name: str, settings: Mapping[str, str]) -> str:
    """As the Compose files read it: LAB_TAG, where it is set, stands above what is pinned."""
    tag = settings.get(TAG) or settings.get(release_variable(name)) or __version__
    return f"{settings.get(REGISTRY, '')}{FOLDER}/{name}:{tag}"


def is_own(reference: str) -> bool:
    """Whether it is one of the lab's own, from wherever."""
    return f"/{repository_of(reference)}".rpartition("/")[0].endswith(f"/{FOLDER}")


def is_published(reference: str) -> bool:
    """Whether it is one of the lab's own that a registry is named for."""
    return is_own(reference) and not reference.startswith(f"{FOLDER}/")


def is_pinned(reference: str) -> bool:
    """Whether it names a digest: what is built here never has it."""
    return "@" in reference


def without_digest(reference: str) -> str:
    """The name and tag that an image has where it was built, or loaded from a file."""
    return reference.partition("@")[0]


def release_tag(settings: Mapping[str, str]) -> str:
    """The tag of what is pinned, "" where nothing is; LabError (exit code 2) where that is not one release."""
    pinned = {name: settings[name] for name in RELEASES if settings.get(name)}
    for name, text in pinned.items():
        if not _RELEASE.fullmatch(text):
            raise LabError(f"{name}={text!r}: expected tag@sha256:…", _REMEDY, EXIT_USAGE)
    if pinned and (missing := [name for name in RELEASES if name not in pinned]):
        raise LabError(f"Some images are pinned, and {', '.join(missing)} is not set.", _REMEDY, EXIT_USAGE)
    tags = {text.partition("@")[0] for text in pinned.values()}
    if len(tags) > 1:
        raise LabError(f"The pinned images are of several releases: {', '.join(sorted(tags))}.", _REMEDY, EXIT_USAGE)
    return "".join(tags)


_REMEDY = "scripts/pin-images writes all of them into .env; LAB_TAG=NAME there builds and runs images of your own."
