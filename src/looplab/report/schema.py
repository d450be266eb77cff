"""Check a document against a JSON schema and name the first fault in words."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

import looplab.run
from looplab.spec.cell import Cell
from looplab.spec.columns import Column, Count, Key, Latency, Part, Word
from looplab.spec.document import defined
from looplab.spec.parameters import Settings

# What the run.json of every experiment holds beside the columns of its cells.
FRAME = Path(looplab.run.__file__).parent / "run.schema.json"
LONGEST = 200


@cache
def validator(schema: Path) -> Draft202012Validator:
    """Return the validator of a schema file, which may refer to its own definitions."""
    return Draft202012Validator(json.loads(schema.read_text(encoding="utf-8")))


def run_schema(cell: type[Cell], settings: type[Settings]) -> Draft202012Validator:
    """Return the validator of run.json with the cells and parameters that a spec describes."""
    frame = json.loads(FRAME.read_text(encoding="utf-8"))
    properties = frame["properties"]
    properties["cells"]["items"] = cell_schema(cell)
    kinds = get_type_hints(settings)
    properties["parameters"]["properties"] = {one.name: _typed(kinds[one.name]) for one in fields(settings)}
    properties.update(cell.of_run)
    return Draft202012Validator(frame)


def cell_schema(cell: type[Cell]) -> dict[str, Any]:
    """Return the schema of one cell of run.json; `required` holds for runs of any age."""
    properties: dict[str, Any] = {"valid": {"type": "boolean"}, "invalid_because": {"type": "array"}}
    for column in cell.columns.values():
        if column.stored:
            _place(properties, column.path, _kind(column))
    required = [column.name for column in (*cell.key_columns(), cell.total(), *cell.outcomes().values())]
    return {"type": "object", "required": required, "properties": properties}


def _kind(column: Column[Any]) -> Mapping[str, Any]:
    if isinstance(column, Part):
        return column.shape
    if isinstance(column, Key):
        own = "qos" if column.name == "qos" else "milliseconds" if column.kind is float else ""
        return defined(own) if own else _TYPES[column.kind]
    return defined({Latency: "latency", Count: "count", Word: "text"}.get(type(column), "number"))


# JSON's name of what a key or a parameter is.
_TYPES: Mapping[Any, dict[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer", "minimum": 0},
    float: {"type": "number"},
    type(None): {"type": "null"},
}


def _typed(kind: Any) -> dict[str, Any]:
    """Return the schema of a parameter of that type."""
    if kind in _TYPES:
        return _TYPES[kind]
    if isinstance(kind, UnionType):
        return {"anyOf": [_typed(one) for one in get_args(kind)]}
    return {"type": "array" if get_origin(kind) is tuple else "object"}


def _place(properties: dict[str, Any], path: Sequence[str], kind: Mapping[str, Any]) -> None:
    """Put the schema of a value where its path leads; any object on the way may be null."""
    for step in path[:-1]:
        part = properties.setdefault(step, {"type": ["object", "null"]})
        properties = part.setdefault("properties", {})
    properties[path[-1]] = {**properties.get(path[-1], {}), **kind}


def fault(document: Any, schema: Draft202012Validator) -> str:
    """Return a fault of `document` with its place, e.g. "`cells[0].sent`: -1 is less than …"; "" if there is none."""
    error = best_match(schema.iter_errors(document))
    if error is None:
        return ""
    place = error.json_path.removeprefix("$").removeprefix(".")
    # A message quotes the value, which may be a whole document.
    message = error.message if len(error.message) < LONGEST else f"{error.message[:LONGEST]} …"
    return f"`{place}`: {message}" if place else message
