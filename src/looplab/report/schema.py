"""Check a document against a JSON schema and name the first fault in words."""

import json
import reprlib
from collections.abc import Iterable, Mapping
from functools import cache, reduce
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

import looplab.run

# What the run.json of every experiment holds; an experiment's own schema refers to it by its `$id`.
FRAME = Path(looplab.run.__file__).parent / "run.schema.json"


@cache
def validator(schema: Path) -> Draft202012Validator:
    """Return the validator of a schema file, which may refer to its own definitions and to the frame."""
    documents = {file: json.loads(file.read_text(encoding="utf-8")) for file in (schema, FRAME)}
    return Draft202012Validator(_without_references(documents[schema], schema, documents))


def _without_references(part: Any, file: Path, documents: Mapping[Path, Any]) -> Any:
    """Return a part of a schema file with what its references name in their place.

    Looking them up for each value takes as long as the check; no definition refers to itself.
    """
    if isinstance(part, list):
        return [_without_references(one, file, documents) for one in part]
    if not isinstance(part, dict):
        return part
    own = {name: value for name, value in part.items() if name not in ("$ref", "$defs", "$id")}
    held = {name: _without_references(value, file, documents) for name, value in own.items()}
    if "$ref" not in part:
        return held
    document, _, pointer = part["$ref"].partition("#/")
    if document:
        assert document == documents[FRAME]["$id"]
        file = FRAME
    target = reduce(lambda place, name: place[name], pointer.split("/") if pointer else [], documents[file])
    found = _without_references(target, file, documents)
    return {**held, "allOf": [found]} if held else found


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
