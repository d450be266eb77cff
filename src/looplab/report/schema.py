"""Check a document against a JSON schema and name the first fault in words."""

import json
import reprlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from referencing import Registry, Resource

import looplab.run

# What the run.json of every experiment holds; an experiment's own schema refers to it by its `$id`.
FRAME = Path(looplab.run.__file__).parent / "run.schema.json"


@cache
def validator(schema: Path) -> Draft202012Validator:
    """Return the validator of a schema file, which may refer to the frame."""
    frame: dict[str, Any] = json.loads(FRAME.read_text(encoding="utf-8"))
    registry: Registry[Any] = Resource.from_contents(frame) @ Registry()
    return Draft202012Validator(json.loads(schema.read_text(encoding="utf-8")), registry=registry)


def fault(document: Any, schema: Path) -> str:
    """Return a fault of `document` with its place, e.g. "`cells[0].sent` is -1, expected minimum: 0"; "" if none."""
    error = best_match(validator(schema).iter_errors(document))
    if error is None:
        return ""
    place = place_of(error.absolute_path)
    if error.validator == "required":
        missing = [name for name in error.validator_value if name not in error.instance]
        return f"{place} lacks {quoted(missing)}"
    if error.validator == "additionalProperties" and error.validator_value is False:
        known = error.schema["properties"]
        return f"{place} has {quoted(k for k in error.instance if k not in known)}; known are {quoted(known)}"
    return f"{place} is {reprlib.repr(error.instance)}, expected {error.validator}: {_plain(error.validator_value)}"


def place_of(path: Iterable[str | int]) -> str:
    """Return the place of a value as it is written in code: `cells[0].sent`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")
    return f"`{text}`" if text else "the file"


def quoted(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _plain(value: Any) -> str:
    return " or ".join(map(str, value)) if isinstance(value, list) else str(value)
