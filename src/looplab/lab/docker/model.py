"""What run.json holds of the Compose model of a run: the images of its parts, and what the user's own file changes."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from looplab.errors import MachineError
from looplab.lab.docker.compose import Compose
from looplab.lab.docker.images import image_facts
from looplab.system.machine_facts import OWN

# A file that is read anyway, in place of the user's own.
_NEUTRAL = "compose/lab.yaml"


def model_facts(root: Path, compose: Compose, profile: str, own: str) -> dict[str, Any]:
    """Return what Compose starts for `profile`, read with the very variables of the start; `own` is the user's file."""
    model = compose.config(profile)
    services = model["services"]
    facts = image_facts(services, {name for name, one in services.items() if one.get("scale") != 0} - compose.left_out)
    return {
        "images": {part_of(name, profile): one for name, one in facts.items()},
        "lab_own": {"file": own, "changes": "" if _is_empty(root / own) else _digest(root, compose, profile, model)},
    }


def _is_empty(own: Path) -> bool:
    """Return whether the file is as it came: Compose need not be asked twice."""
    try:
        lines = own.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return False
    return [line for line in lines if line.partition("#")[0].strip()] == ["services: {}"]


def _digest(root: Path, compose: Compose, profile: str, model: Mapping[str, Any]) -> str:
    """Return a digest of what differs in `model` from the one without the user's own file, "" if nothing does."""
    usual = Compose(root, {**compose.environment, OWN: _NEUTRAL}).config(profile)
    for service in (*usual["services"].values(), *model["services"].values()):
        (service.get("environment") or {}).pop(OWN, None)
    changes = json.dumps(_changes(usual, model), sort_keys=True).replace(str(root), ".")
    return "" if model == usual else hashlib.sha256(changes.encode()).hexdigest()[:8]


def check_images(compose: Compose, profile: str, images: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise MachineError (exit code 3) if a container has another image than the run is about to record."""
    for service, number in compose.images().items():
        one = images.get(part_of(service, profile))
        if one and one["id"] != number:
            raise MachineError(
                f"{service} was started from another image than {one['reference']}, which was replaced meanwhile.",
                "Run it again when nothing else builds images here, e.g. another checkout of the lab.",
            )


def part_of(service: str, profile: str) -> str:
    """Return what a service is in every scenario: each has a controller of its own name."""
    return "controller" if service == profile else service.removesuffix("-prioritised")


def _changes(usual: Any, changed: Any) -> Any:
    """Return what differs in `changed`; of a list or a text the whole, and null for what is gone."""
    if not (isinstance(usual, dict) and isinstance(changed, dict)):
        return changed
    names = (name for name in {**usual, **changed} if usual.get(name) != changed.get(name))
    return {name: _changes(usual.get(name), changed.get(name)) for name in names}
