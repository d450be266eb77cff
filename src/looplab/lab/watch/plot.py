"""Curves of shares over a logarithmic time axis, drawn in characters."""

import math
from collections.abc import Iterator, Mapping, Sequence

from rich.text import Text

LOW_S, HIGH_S = 0.0001, 1.0
TICKS = ((0.0001, "0.1 ms"), (0.001, "1 ms"), (0.01, "10 ms"), (0.1, "100 ms"), (1.0, "1 s"))
# Of the first curve, the second, …
STYLES = ("bold blue", "bold green", "bold red", "bold magenta", "bold cyan")
# Columns left of the plot: the share and its axis.
MARGIN = 6

# Dot of a Braille cell by (column, row).
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))


def _dots(points: Sequence[tuple[float, float]], width: int, height: int) -> Iterator[tuple[int, int]]:
    """Yield (column, row) of a monotone curve of (seconds, share), as steps without holes."""
    before: tuple[int, int] | None = None
    for seconds, share in points:
        if seconds < LOW_S:
            continue
        x = min(width - 1, int(_position(seconds) * (width - 1) + 0.5))
        y = height - 1 - int(share * (height - 1) + 0.5)
        if before is not None:
            # Level up to this bound, then the rise.
            yield from ((column, before[1]) for column in range(before[0], x))
            yield from ((x, row) for row in range(min(y, before[1]), max(y, before[1])))
        yield x, y
        before = (x, y)


def _position(seconds: float) -> float:
    """Return 0 at LOW_S, 1 at HIGH_S."""
    return math.log(seconds / LOW_S) / math.log(HIGH_S / LOW_S)


def plot(curves: Mapping[str, Sequence[tuple[float, float]]], width: int, height: int, *, braille: bool) -> Text:
    """Return curves by name with axes, `width` by `height` characters; the last curve drawn owns a character."""
    columns, rows = max(10, width - MARGIN - 1), max(2, height - 1)
    across, down = (2, 4) if braille else (1, 1)
    characters: dict[tuple[int, int], int] = {}
    styles: dict[tuple[int, int], str] = {}
    for (name, points), style in zip(curves.items(), STYLES, strict=False):
        for x, y in _dots(points, columns * across, rows * down):
            place = (x // across, y // down)
            characters[place] = characters.get(place, 0x2800) | _DOTS[y % 4][x % 2] if braille else ord(name[0])
            styles[place] = style
    bar = "│" if braille else "|"
    text = Text()
    labels = {0: "100%", (rows - 1) // 2: " 50%", rows - 1: "  0%"}
    for row in range(rows):
        text.append(f"{labels.get(row, ''):>{MARGIN - 2}} {bar}", "dim")
        for column in range(columns):
            text.append(chr(characters.get((column, row), ord(" "))), styles.get((column, row), ""))
        text.append("\n")
    text.append(_axis(columns), "dim")
    return text


def _axis(columns: int) -> str:
    marks = [" "] * (MARGIN + columns + 1)
    for seconds, label in TICKS:
        at = MARGIN - 1 + round(_position(seconds) * (columns - 1)) - len(label) // 2
        at = max(0, min(at, len(marks) - len(label)))
        marks[at : at + len(label)] = label
    return "".join(marks).rstrip()
