"""What run.json holds of the Compose model of a run: the images of its parts, and what the user's own file changes."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from looplab.errors import MachineError
from looplab.lab.docker.engine import ask
from looplab.lab.docker.images import image_facts
from looplab.system.machine_facts import OWN

# An own file that changes nothing: Compose need not be asked twice.
_NOTHING = "services: {}"


def model_facts(
    services: Mapping[str, Any], usual: Mapping[str, Any], profile: str, own: str, root: Path
) -> dict[str, Any]:
    """Return what run.json holds of `services`, those that Compose starts for `profile`.

    `usual` are the services without the user's file `own`.
    """
    facts = image_facts(services, {name for name, one in services.items() if one.get("scale") != 0})
    return {
        "images": {part_of(name, profile): one for name, one in facts.items()},
        "lab_own": {"file": own, "changes": _digest(usual, services, root)},
    }


def is_empty(own: Path) -> bool:
    """Return whether the user's file holds no service."""
    lines = own.read_text(encoding="utf-8").splitlines() if own.is_file() else []
    return "".join(line for line in lines if line.partition("#")[0].strip()) in ("", _NOTHING)


def _digest(usual: Mapping[str, Any], services: Mapping[str, Any], root: Path) -> str:
    """Return a digest of what differs in `services` from the usual ones, "" if nothing does."""
    changes = _changes(_without_name(usual), _without_name(services))
    text = json.dumps(changes, sort_keys=True).replace(str(root), ".")
    return hashlib.sha256(text.encode()).hexdigest()[:8] if changes else ""


def _without_name(services: Mapping[str, Any]) -> dict[str, Any]:
    """Return the services without the variable that names the user's file: each controller has it."""
    known = {name: one.get("environment") or {} for name, one in services.items()}
    kept = {name: {key: value for key, value in one.items() if key != OWN} for name, one in known.items()}
    return {name: {**one, "environment": kept[name]} for name, one in services.items()}


def _changes(usual: Any, changed: Any) -> Any:
    """Return what differs in `changed`; of a list or a text the whole, and null for what is gone."""
    if not (isinstance(usual, dict) and isinstance(changed, dict)):
        return changed
    names = (name for name in {**usual, **changed} if usual.get(name) != changed.get(name))
    return {name: _changes(usual.get(name), changed.get(name)) for name in names}


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
