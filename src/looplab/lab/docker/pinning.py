"""Pin the images of .env by digest where a registry answers (scripts/pin-images).

Upstream images become `X_IMAGE=name:tag@sha256:…`. Where LAB_REGISTRY names the lab's own, these become a line each,
`X_RELEASE=tag@sha256:…`, LAB_TAG, which would stand above them, is emptied, and plain Compose may pull them.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from looplab.errors import EXIT_MACHINE, LabError
from looplab.lab.docker.images import PULL_TIMEOUT_S
from looplab.lab.docker.own_names import (
    DIGEST,
    NAMES,
    PULL,
    REGISTRY,
    RELEASES,
    TAG,
    own_reference,
    release_tag,
    release_variable,
)
from looplab.lab.docker.registry import repository_of
from looplab.lab.programs import call
from looplab.system.env_files import read_env

ROOT = Path(__file__).resolve().parents[4]
# A variable of .env that names an image of somebody else's.
_PINNABLE = re.compile(rf"^(\w+_IMAGE)=((?!looplab/)[^\s@]+)(?:@{DIGEST})?$", re.MULTILINE)
_RELEASE_LINE = re.compile(rf"^(?:{'|'.join(RELEASES)})=.*\n?", re.MULTILINE)
_TAG_LINE = re.compile(rf"^{TAG}=.*$", re.MULTILINE)
_PULL_LINE = re.compile(rf"^{PULL}=.*\n?", re.MULTILINE)


def images_to_pin(text: str) -> dict[str, str]:
    """{variable: reference without digest} of what .env takes from registries of others."""
    return {found[1]: found[2] for found in _PINNABLE.finditer(text)}


def own_images_to_pin(settings: Mapping[str, str]) -> dict[str, str]:
    """{variable: reference without digest} of the lab's own; {} where .env names no registry for them.

    Of the release that LAB_TAG names, else of the one that is pinned; LabError where that is not one release.
    """
    if not settings.get(REGISTRY):
        return {}
    tag = settings.get(TAG) or release_tag(settings)
    return {release_variable(name): own_reference(name, {**settings, TAG: tag}) for name in NAMES}


def pin(text: str, digests: Mapping[str, str]) -> str:
    """.env with `@digest` behind each reference of `digests`, {X_IMAGE: sha256:…}; all else as it was."""

    def with_digest(found: re.Match[str]) -> str:
        return f"{found[1]}={found[2]}@{digests[found[1]]}" if found[1] in digests else found[0]

    return _PINNABLE.sub(with_digest, text)


def pin_own(text: str, releases: Mapping[str, str]) -> str:
    """.env with `releases`, {X_RELEASE: tag@sha256:…}, behind an empty LAB_TAG and in place of earlier ones.

    LAB_PULL=missing: what is pinned cannot be built.
    """
    if not releases:
        return text
    lines = "\n".join([f"{PULL}=missing", f"{TAG}=", *(f"{name}={value}" for name, value in releases.items())])
    rest = _PULL_LINE.sub("", _RELEASE_LINE.sub("", text))
    return _TAG_LINE.sub(lines, rest) if _TAG_LINE.search(rest) else f"{rest.rstrip()}\n{lines}\n"


def ask_digest(reference: str) -> str:
    """Pull `reference` and return the digest of its index, which stands for all architectures."""
    pulled = call(["docker", "pull", "--quiet", reference], timeout_s=PULL_TIMEOUT_S)
    if not pulled.good:
        raise LabError(f"{reference} cannot be pulled: {pulled.said}", "Pin where a registry answers.", EXIT_MACHINE)
    shown = call(["docker", "image", "inspect", "--format", "{{json .RepoDigests}}", reference])
    return read_digest(reference, json.loads(shown.stdout) if shown.good else [])


def read_digest(reference: str, repository_digests: list[str]) -> str:
    """The digest that belongs to the repository of `reference`: an image may have come from several."""
    for entry in repository_digests:
        name, _, digest = entry.partition("@")
        if name == repository_of(reference) and re.fullmatch(DIGEST, digest):
            return digest
    raise LabError(f"{reference} has no digest: it was built here, not pulled.", "Pull it first.", EXIT_MACHINE)


def main(arguments: Sequence[str]) -> int:
    """Ask for each of the one file named, .env by default, then write all or nothing; exit code 3 where one cannot
    be had."""
    path = Path(arguments[0]) if arguments else ROOT / ".env"
    text = path.read_text(encoding="utf-8")
    try:
        own = own_images_to_pin(read_env(path))
        digests = {variable: ask_digest(reference) for variable, reference in {**images_to_pin(text), **own}.items()}
    except LabError as error:
        print(f"{error.message}\n{error.remedy}\n{path.name} is as it was.", file=sys.stderr)
        return error.exit_code
    releases = {variable: f"{reference.rpartition(':')[2]}@{digests[variable]}" for variable, reference in own.items()}
    path.write_text(pin_own(pin(text, digests), releases), encoding="utf-8")
    for variable, digest in digests.items():
        print(f"{variable:<18} {digest}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
