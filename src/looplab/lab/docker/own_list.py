"""Print what .env calls the lab's own images, a line each (scripts/own-images)."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from looplab.errors import EXIT_MACHINE, LabError
from looplab.lab.checkout import Lab
from looplab.lab.docker.own_names import NAMES
from looplab.lab.docker.registry import repository_of
from looplab.lab.programs import call

ROOT = Path(__file__).resolve().parents[4]
ASK_TIMEOUT_S = 60.0


def of_platform(reference: str, platform: str) -> str:
    """`repository@sha256:…` of what a published image is for one platform; LabError where it is not published so."""
    asked = call(["docker", "buildx", "imagetools", "inspect", "--raw", reference], timeout_s=ASK_TIMEOUT_S)
    if not asked.good:
        remedy = "Name the registry in LAB_REGISTRY; docker buildx is needed."
        raise LabError(f"{reference} is not published: {asked.said}", remedy, EXIT_MACHINE)
    return f"{repository_of(reference)}@{read_index(reference, asked.stdout, platform)}"


def read_index(reference: str, text: str, platform: str) -> str:
    """The digest that an image index has for `platform`, e.g. linux/arm/v7."""
    found = {platform_of(entry): str(entry["digest"]) for entry in json.loads(text).get("manifests", [])}
    if platform not in found:
        known = sorted(name for name in found if not name.startswith("unknown")) or ["one machine's kind alone"]
        raise LabError(f"{reference} is not for {platform}.", f"It is for {', '.join(known)}.", EXIT_MACHINE)
    return found[platform]


def platform_of(entry: dict[str, dict[str, str]]) -> str:
    """Of one entry of an index; arm64 is the same with and without its variant v8."""
    told = entry.get("platform", {})
    parts = (told.get("os", "unknown"), told.get("architecture", "unknown"), told.get("variant", ""))
    return "/".join(filter(None, parts)).removesuffix("/v8")


def main(arguments: Sequence[str]) -> int:
    """Exit code 3 where a platform is asked for that is not published."""
    parser = argparse.ArgumentParser(prog="own-images", description=__doc__)
    parser.add_argument("--platform", help="as published for it, e.g. linux/arm64: repository@digest")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"all by default: {' '.join(NAMES)}")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(NAMES):
        parser.error(f"there is no image {', '.join(sorted(unknown))}")
    references = Lab(ROOT).own_images()
    try:
        for name in options.names or NAMES:
            reference = references[name]
            print(of_platform(reference, options.platform) if options.platform else reference)
    except LabError as error:
        print(f"{error.message}\n{error.remedy}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
