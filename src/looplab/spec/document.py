"""Places in a cell of run.json, and the shapes that its parts have, as JSON schemas."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

Document = Mapping[str, Any]


def at(document: Any, path: Iterable[str]) -> Any:
    """Return what a cell of run.json holds at `path`, None where a step is missing or null."""
    for step in path:
        document = (document or {}).get(step)
    return document


def defined(name: str) -> dict[str, Any]:
    """Return the shape that a definition of run.schema.json has, e.g. "latency"."""
    return {"$ref": f"#/$defs/{name}"}


def each(name: str) -> dict[str, Any]:
    """Return the shape of an object of which each value is as that definition says."""
    return {"type": ["object", "null"], "additionalProperties": defined(name)}


def rows(optional: Mapping[str, str] = MappingProxyType({}), /, **fields: str) -> dict[str, Any]:
    """Return the shape of a list of objects, each with these fields by definition; it may lack those in `optional`."""
    properties = {name: defined(kind) for name, kind in {**optional, **fields}.items()}
    return {"type": ["array", "null"], "items": {"type": "object", "required": [*fields], "properties": properties}}
