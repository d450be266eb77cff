"""What run.json holds of the Compose model of a run: the images of its parts, and what the user's own file changes."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from looplab.errors import MachineError
from looplab.lab.docker.engine import ask
from looplab.lab.docker.images import image_facts

# An own file that changes nothing.
_NOTHING = "services: {}"


def model_facts(services: Mapping[str, Any], profile: str, own: Path, root: Path) -> dict[str, Any]:
    """Return what run.json holds of `services`, those that Compose starts for `profile`; `own` is the user's file."""
    facts = image_facts(services, {name for name, one in services.items() if one.get("scale") != 0})
    return {
        "images": {part_of(name, profile): one for name, one in facts.items()},
        "lab_own": {"file": str(own), "changes": _digest(root / own)},
    }


def _digest(own: Path) -> str:
    """Return a digest of the user's file without its comments, "" if it changes nothing."""
    lines = own.read_text(encoding="utf-8").splitlines() if own.is_file() else []
    text = "\n".join(line for line in lines if line.partition("#")[0].strip())
    return hashlib.sha256(text.encode()).hexdigest()[:8] if text not in ("", _NOTHING) else ""


def check_images(containers: Mapping[str, str], profile: str, images: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise MachineError (exit code 3) if a container has another image than the run is about to record.

    `containers` are ids by service.
    """
    lines = ask("inspect", "--format", "{{.Id}} {{.Image}}", *containers.values()).stdout.splitlines()
    found = dict(line.split() for line in lines)
    for service, container in containers.items():
        one = images.get(part_of(service, profile))
        if one and one["id"] != found.get(container):
            raise MachineError(
                f"{service} was started from another image than {one['reference']}, which was replaced meanwhile.",
                "Run it again when nothing else builds images here, e.g. another checkout of the lab.",
            )


def part_of(service: str, profile: str) -> str:
    """Return what a service is in every scenario: each has a controller of its own name."""
    return "controller" if service == profile else service.removesuffix("-prioritised")
