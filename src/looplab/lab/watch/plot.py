"""Curves of shares over a logarithmic time axis, drawn in characters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from rich.text import Text

LOW_S, HIGH_S = 0.0001, 1.0
TICKS = ((0.0001, "0.1 ms"), (0.001, "1 ms"), (0.01, "10 ms"), (0.1, "100 ms"), (1.0, "1 s"))
# Of the first curve, the second, …
STYLES = ("bold blue", "bold green", "bold red", "bold magenta", "bold cyan")
# Columns left of the plot: the share and its axis.
MARGIN = 6

# Dot of a Braille cell by (column, row).
_DOTS = (
    (0x01, 0x08),
    (0x02, 0x10),
    (0x04, 0x20),
    (0x40, 0x80),
)


class Canvas:
    """A grid of characters of which the last curve drawn owns a cell."""

    def __init__(self, columns: int, rows: int, styles: Mapping[str, str], *, braille: bool) -> None:
        self._styles = styles
        self.columns, self.rows = columns, rows
        self._across, self._down = (2, 4) if braille else (1, 1)
        self._braille = braille
        self._dots: dict[tuple[int, int], int] = {}
        self._owner: dict[tuple[int, int], str] = {}

    def curve(self, name: str, points: Sequence[tuple[float, float]]) -> None:
        """Draw a monotone curve of (seconds, share)."""
        width, height = self.columns * self._across, self.rows * self._down
        before: tuple[int, int] | None = None
        for seconds, share in points:
            if seconds < LOW_S:
                continue
            x = min(width - 1, int(_position(seconds) * (width - 1) + 0.5))
            y = height - 1 - int(share * (height - 1) + 0.5)
            if before is not None:
                # Steps without holes: level up to this bound, then the rise.
                for column in range(before[0], x):
                    self._dot(name, column, before[1])
                for step in range(min(y, before[1]), max(y, before[1])):
                    self._dot(name, x, step)
            self._dot(name, x, y)
            before = (x, y)

    def line(self, row: int) -> Text:
        """One row of characters with each curve's style."""
        text = Text()
        for column in range(self.columns):
            owner = self._owner.get((column, row))
            if owner is None:
                text.append(" ")
            elif self._braille:
                text.append(chr(0x2800 + self._dots[column, row]), self._styles.get(owner, ""))
            else:
                text.append(owner, self._styles.get(owner, ""))
        return text

    def _dot(self, name: str, x: int, y: int) -> None:
        cell = (x // self._across, y // self._down)
        self._owner[cell] = name
        if self._braille:
            self._dots[cell] = self._dots.get(cell, 0) | _DOTS[y % 4][x % 2]


def _position(seconds: float) -> float:
    """0 at LOW_S, 1 at HIGH_S."""
    return math.log(seconds / LOW_S) / math.log(HIGH_S / LOW_S)


def plot(curves: Mapping[str, Sequence[tuple[float, float]]], width: int, height: int, *, braille: bool) -> Text:
    """Curves by name with axes, `width` by `height` characters in all."""
    columns, rows = max(10, width - MARGIN - 1), max(2, height - 1)
    canvas = Canvas(columns, rows, dict(zip(curves, STYLES, strict=False)), braille=braille)
    for name, points in curves.items():
        canvas.curve(name, points)
    bar = "│" if braille else "|"
    text = Text()
    labels = {0: "100%", (rows - 1) // 2: " 50%", rows - 1: "  0%"}
    for row in range(rows):
        text.append(f"{labels.get(row, ''):>{MARGIN - 2}} {bar}", "dim")
        text.append_text(canvas.line(row))
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
