"""Colours, lines and texts of single fields: what Grafana calls overrides and mappings."""

from collections.abc import Sequence
from typing import Any

Properties = dict[str, Any]
Override = dict[str, Any]

# Two curves and one beside them; what is well, what is not.
FIRST, SECOND, LIGHT, GOOD, BAD = "#5858E1", "#CC6677", "#3D98D3", "#117733", "#CC3311"
# A load without a colour of its own here is drawn in the next one of Grafana's palette.
PART_COLOURS = {
    "controller": "#5858E1",
    "broker": "#CC6677",
    "bridge": "#117733",
    "robot": "#3D98D3",
    "stress": "#C27C1A",
    "flood": "#C72375",
    "treatments": "#2A9D8F",
    "exporter": "#AA4499",
}
# Corrected runs beside those of the thesis: thin, with squares.
CORRECTED: Properties = {"custom.lineWidth": 1, "custom.pointShape": "square", "custom.pointSize": {"fixed": 6}}
LOGARITHMIC = {"type": "log", "log": 10}


def override(fields: str, properties: Properties) -> Override:
    """Return an override for one field by its name, or for all that match a pattern between slashes."""
    return {
        "matcher": {"id": "byRegexp" if fields.startswith("/") else "byName", "options": fields},
        "properties": [{"id": name, "value": value} for name, value in properties.items()],
    }


def fixed(colour: str) -> dict[str, str]:
    """Return a colour that no palette changes."""
    return {"mode": "fixed", "fixedColor": colour}


def colours(table: dict[str, str]) -> list[Override]:
    """Return fixed colours by field name."""
    return [override(name, {"color": fixed(colour)}) for name, colour in table.items()]


def dashed(dash: Sequence[int]) -> Properties:
    """Return the properties of a dashed line: lengths of stroke and gap in pixels."""
    return {"custom.lineStyle": {"fill": "dash", "dash": dash}}


def line(colour: str, dash: Sequence[int] = ()) -> Properties:
    """Return the properties of a curve; without `dash` its line is solid."""
    return {"color": fixed(colour), **(dashed(dash) if dash else {})}


def widths(pixels: dict[str, int]) -> list[Override]:
    """Return the widths of a table's columns by their headings; the others share what is left."""
    return [override(name, {"custom.width": width}) for name, width in pixels.items()]


def yes_or_no(no: str, yes: str, no_colour: str = BAD, *, neither: str = "") -> dict[str, Any]:
    """Return the mapping that shows 0 and 1 as words; and 2, which is neither good nor bad."""
    words = {"0": (no, no_colour), "1": (yes, GOOD), **({"2": (neither, "text")} if neither else {})}
    return {
        "type": "value",
        "options": {key: {"text": text, "color": colour, "index": int(key)} for key, (text, colour) in words.items()},
    }


def thresholds(base: str, limit: float | None = None) -> dict[str, Any]:
    """Return the colour `base`, and BAD from `limit` on."""
    steps: list[dict[str, Any]] = [{"color": base, "value": None}]
    return {"mode": "absolute", "steps": steps + ([] if limit is None else [{"color": BAD, "value": limit}])}
