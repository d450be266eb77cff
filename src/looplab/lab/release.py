"""What a release is made with: print what the images are called, and pin them in .env by digest.

scripts/own-images and scripts/pin-images call this. Upstream images become `X_IMAGE=name:tag@sha256:…`. If LAB_REGISTRY
is set, the lab's own become `X_RELEASE=tag@sha256:…`, LAB_TAG, which would override them, becomes empty, and plain
Compose may pull them.
"""

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from looplab.errors import EXIT_GOOD, LabError, MachineError
from looplab.experiments.registry import EXPERIMENTS
from looplab.lab.checkout import Lab
from looplab.lab.docker.images import PULL_TIMEOUT_S
from looplab.lab.image_names import (
    DIGEST,
    NAMES,
    PULL,
    REGISTRY,
    RELEASES,
    TAG,
    own_reference,
    release_tag,
    release_variable,
    repository_of,
)
from looplab.lab.programs import call
from looplab.system.env_files import read_env

ROOT = Path(__file__).resolve().parents[3]
ASK_TIMEOUT_S = 60.0
# A variable of .env that names an upstream image.
_PINNABLE = re.compile(rf"^(\w+_IMAGE)=((?!looplab/)[^\s@]+)(?:@{DIGEST})?$", re.MULTILINE)
_RELEASE_LINE = re.compile(rf"^(?:{'|'.join(RELEASES)})=.*\n?", re.MULTILINE)
_TAG_LINE = re.compile(rf"^{TAG}=.*$", re.MULTILINE)
_PULL_LINE = re.compile(rf"^{PULL}=.*\n?", re.MULTILINE)


def images_to_pin(text: str) -> dict[str, str]:
    """Return {variable: reference without digest} of the upstream images in .env."""
    return {found[1]: found[2] for found in _PINNABLE.finditer(text)}


def own_images_to_pin(settings: Mapping[str, str]) -> dict[str, str]:
    """Return {variable: reference without digest} of the lab's own images, {} if .env names no registry for them.

    Their release is the one of LAB_TAG, else the pinned one; LabError if several are pinned.
    """
    if not settings.get(REGISTRY):
        return {}
    tag = settings.get(TAG) or release_tag(settings)
    return {release_variable(name): own_reference(name, {**settings, TAG: tag}) for name in NAMES}


def pin(text: str, digests: Mapping[str, str]) -> str:
    """Return .env with `@digest` behind each reference of `digests`, {X_IMAGE: sha256:…}; the rest is unchanged."""

    def with_digest(found: re.Match[str]) -> str:
        return f"{found[1]}={found[2]}@{digests[found[1]]}" if found[1] in digests else found[0]

    return _PINNABLE.sub(with_digest, text)


def pin_own(text: str, releases: Mapping[str, str]) -> str:
    """Return .env with `releases`, {X_RELEASE: tag@sha256:…}, behind an empty LAB_TAG and in place of earlier ones.

    LAB_PULL becomes missing: pinned images cannot be built.
    """
    if not releases:
        return text
    lines = "\n".join([f"{PULL}=missing", f"{TAG}=", *(f"{name}={value}" for name, value in releases.items())])
    rest = _PULL_LINE.sub("", _RELEASE_LINE.sub("", text))
    return _TAG_LINE.sub(lines, rest) if _TAG_LINE.search(rest) else f"{rest.rstrip()}\n{lines}\n"


def ask_digest(reference: str) -> str:
    """Pull `reference` and return the digest of its index, which covers all architectures."""
    pulled = call(["docker", "pull", "--quiet", reference], timeout_s=PULL_TIMEOUT_S)
    if not pulled.good:
        raise MachineError(f"{reference} cannot be pulled: {pulled.said}", "Pin where a registry answers.")
    shown = call(["docker", "image", "inspect", "--format", "{{json .RepoDigests}}", reference])
    return read_digest(reference, json.loads(shown.stdout) if shown.good else [])


def read_digest(reference: str, repository_digests: list[str]) -> str:
    """Return the digest that belongs to the repository of `reference`: an image may have come from several."""
    for entry in repository_digests:
        name, _, digest = entry.partition("@")
        if name == repository_of(reference) and re.fullmatch(DIGEST, digest):
            return digest
    raise MachineError(f"{reference} has no digest: it was built here, not pulled.", "Pull it first.")


def of_platform(reference: str, platform: str) -> str:
    """Return `repository@sha256:…` of a published image for one platform; LabError if it is not published for it."""
    asked = call(["docker", "buildx", "imagetools", "inspect", "--raw", reference], timeout_s=ASK_TIMEOUT_S)
    if not asked.good:
        remedy = "Name the registry in LAB_REGISTRY; docker buildx is needed."
        raise MachineError(f"{reference} is not published: {asked.said}", remedy)
    return f"{repository_of(reference)}@{read_index(reference, asked.stdout, platform)}"


def read_index(reference: str, text: str, platform: str) -> str:
    """Return the digest that an image index has for `platform`, e.g. linux/arm/v7."""
    found = {_platform(entry): str(entry["digest"]) for entry in json.loads(text).get("manifests", [])}
    if platform not in found:
        known = sorted(name for name in found if not name.startswith("unknown")) or ["one kind of machine alone"]
        raise MachineError(f"{reference} is not for {platform}.", f"It is for {', '.join(known)}.")
    return found[platform]


def _platform(entry: dict[str, dict[str, str]]) -> str:
    """Return the platform of an index's entry; arm64 is the same with and without its variant v8."""
    named = entry.get("platform", {})
    parts = (named.get("os", "unknown"), named.get("architecture", "unknown"), named.get("variant", ""))
    return "/".join(filter(None, parts)).removesuffix("/v8")


def pin_images(path: Path) -> None:
    """Pin all images of an env file, or raise LabError and leave the file as it was."""
    text = path.read_text(encoding="utf-8")
    own = own_images_to_pin(read_env(path))
    digests = {variable: ask_digest(reference) for variable, reference in {**images_to_pin(text), **own}.items()}
    releases = {variable: f"{reference.rpartition(':')[2]}@{digests[variable]}" for variable, reference in own.items()}
    path.write_text(pin_own(pin(text, digests), releases), encoding="utf-8")
    for variable, digest in digests.items():
        print(f"{variable:<18} {digest}")


def list_images(names: Sequence[str], platform: str | None) -> None:
    """Print the references of the lab's own images, with a platform as the registry has them for it."""
    references = Lab(ROOT, wanted=EXPERIMENTS.values()).own_images()
    for name in names or NAMES:
        print(of_platform(references[name], platform) if platform else references[name])


def main(arguments: Sequence[str]) -> int:
    """Run one of the two scripts; exit code 3 if a registry does not give an image."""
    parser = argparse.ArgumentParser(prog="release", description=__doc__)
    scripts = parser.add_subparsers(dest="script", required=True)
    pinning = scripts.add_parser("pin-images")
    pinning.add_argument("file", nargs="?", type=Path, default=ROOT / ".env", help="by default .env")
    listing = scripts.add_parser("own-images")
    listing.add_argument("--platform", help="as published for it, e.g. linux/arm64: repository@digest")
    listing.add_argument("names", nargs="*", metavar="NAME", help=f"all by default: {' '.join(NAMES)}")
    options = parser.parse_args(arguments)
    if options.script == "own-images" and (unknown := set(options.names) - set(NAMES)):
        parser.error(f"there is no image {', '.join(sorted(unknown))}")
    try:
        if options.script == "pin-images":
            pin_images(options.file)
        else:
            list_images(options.names, options.platform)
    except LabError as error:
        unchanged = f"\n{options.file.name} is unchanged." if options.script == "pin-images" else ""
        print(f"{error.message}\n{error.remedy}{unchanged}", file=sys.stderr)
        return error.exit_code
    return EXIT_GOOD


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
