"""Pin the upstream images of .env by digest, `name:tag@sha256:…`, where a registry answers (scripts/pin-images)."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from looplab.errors import EXIT_MACHINE, LabError
from looplab.host.command import call
from looplab.host.images import PULL_TIMEOUT_S
from looplab.host.registry import repository_of

ROOT = Path(__file__).resolve().parents[3]
# A variable of .env that names an image of somebody else's; the lab's own have no registry.
_PINNABLE = re.compile(r"^(\w+_IMAGE)=((?!looplab/)[^\s@]+)(?:@sha256:[0-9a-f]{64})?$", re.MULTILINE)


def images_to_pin(text: str) -> dict[str, str]:
    """{variable: reference without digest} of what .env takes from a registry."""
    return {found[1]: found[2] for found in _PINNABLE.finditer(text)}


def pin(text: str, digests: dict[str, str]) -> str:
    """.env with `@digest` behind each reference of `digests`, {variable: sha256:…}; all else as it was."""

    def with_digest(found: re.Match[str]) -> str:
        return f"{found[1]}={found[2]}@{digests[found[1]]}" if found[1] in digests else found[0]

    return _PINNABLE.sub(with_digest, text)


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
        if name == repository_of(reference) and re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
            return digest
    raise LabError(f"{reference} has no digest: it was built here, not pulled.", "Pull it first.", EXIT_MACHINE)


def main(arguments: Sequence[str]) -> int:
    """Ask for each of the one file named, .env by default, then write all or nothing; exit code 3 where one cannot
    be had."""
    path = Path(arguments[0]) if arguments else ROOT / ".env"
    text = path.read_text(encoding="utf-8")
    try:
        digests = {variable: ask_digest(reference) for variable, reference in images_to_pin(text).items()}
    except LabError as error:
        print(f"{error.message}\n{error.remedy}\n{path.name} is as it was.", file=sys.stderr)
        return error.exit_code
    path.write_text(pin(text, digests), encoding="utf-8")
    for variable, digest in digests.items():
        print(f"{variable:<18} {digest}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
