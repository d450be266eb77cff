"""References of images, and what the lab's own are called: as built, in a registry (LAB_REGISTRY), or pinned."""

import re
from collections.abc import Mapping

from looplab import __version__
from looplab.errors import UsageError
from looplab.experiments.registry import EXPERIMENTS

# What several experiments start; the others stand in the experiment that starts them alone.
SHARED = (
    "prepare",
    "treatments",
    "controller",
    "bridge",
    "exporter",
    "robot",
    "flood",
    "link",
    "capture",
    "stress",
)
NAMES = (*SHARED, *(name for experiment in EXPERIMENTS.values() for name in experiment.images))
FOLDER = "looplab"
REGISTRY, TAG, PULL = "LAB_REGISTRY", "LAB_TAG", "LAB_PULL"
BASE_IMAGE = "debian:trixie-slim"
# On images that were built from packages, in place of an upstream one.
ORIGIN_LABEL = "looplab.origin"
DIGEST = r"sha256:[0-9a-f]{64}"
_RELEASE = re.compile(rf"([A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})@{DIGEST}")
_REMEDY = "scripts/pin-images writes all of them into .env; LAB_TAG=NAME there builds and runs images of your own."


def registry_of(reference: str) -> str:
    """Return the host part of an image reference, "" for the default registry."""
    first, slash, _ = reference.partition("/")
    return first if slash and ("." in first or ":" in first or first == "localhost") else ""


def repository_of(reference: str) -> str:
    """Return the reference without tag and digest."""
    head, slash, last = without_digest(reference).rpartition("/")
    return head + slash + last.partition(":")[0]


def without_digest(reference: str) -> str:
    """Return name and tag: what an image is called if it was built here or loaded from a file."""
    return reference.partition("@")[0]


def is_pinned(reference: str) -> bool:
    """Return whether it names a digest; images that are built here never have one."""
    return "@" in reference


def release_variable(name: str) -> str:
    """Return the variable that holds `tag@sha256:…` of a published image."""
    return f"{name.upper()}_RELEASE"


RELEASES = tuple(map(release_variable, NAMES))


def own_reference(name: str, settings: Mapping[str, str]) -> str:
    """Return the reference as the Compose files build it: LAB_TAG, if set, overrides what is pinned."""
    tag = settings.get(TAG) or settings.get(release_variable(name)) or __version__
    return f"{settings.get(REGISTRY, '')}{FOLDER}/{name}:{tag}"


def is_own(reference: str) -> bool:
    """Return whether it is one of the lab's own images, of any registry."""
    return f"/{repository_of(reference)}".rpartition("/")[0].endswith(f"/{FOLDER}")


def is_published(reference: str) -> bool:
    """Return whether it is one of the lab's own images in a named registry."""
    return is_own(reference) and not reference.startswith(f"{FOLDER}/")


def release_tag(settings: Mapping[str, str]) -> str:
    """Return the tag of the pinned images, "" if none is; LabError (exit code 2) unless all are of one release."""
    pinned = {name: settings[name] for name in RELEASES if settings.get(name)}
    for name, text in pinned.items():
        if not _RELEASE.fullmatch(text):
            raise UsageError(f"{name}={text!r}: expected tag@sha256:…", _REMEDY)
    if pinned and (missing := [name for name in RELEASES if name not in pinned]):
        raise UsageError(f"Some images are pinned, and {', '.join(missing)} is not set.", _REMEDY)
    tags = {text.partition("@")[0] for text in pinned.values()}
    if len(tags) > 1:
        raise UsageError(f"The pinned images are of several releases: {', '.join(sorted(tags))}.", _REMEDY)
    return "".join(tags)
