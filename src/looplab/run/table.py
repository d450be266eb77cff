"""What the tables of all runs have in common, in 80 columns."""

from collections.abc import Iterable, Iterator, Sequence
from textwrap import fill, wrap
from typing import Any

from looplab.run import quiet
from looplab.run.accounting import FEWEST_BEYOND, UNSURE, mark
from looplab.spec.cell import Cell
from looplab.spec.columns import Column, Figure, Key, Latency
from looplab.system.words import plural

WIDTH = 80
STATISTIC_WORDS = {
    "avg": "mean",
    "p50": "half take less",
    "p95": "95 of 100 take less",
    "p99": "99 of 100 take less",
    "max": "none takes longer",
}


def cells_table(run: dict[str, Any], cell: type[Cell]) -> str:
    """Return the table of a run (a run.json document) as its spec says, no line feed at its end."""
    shown = [column for column in cell.columns.values() if column.heading or _statistics(column)]
    rows = [[text for column in shown for text in _texts(column, cell(entry))] for entry in run["cells"]]
    head = [heading for column in shown for heading in _headings(column)]
    marks = ["", *(invalid(entry) for entry in run["cells"])]
    lines = [f"{line}{mark}" for line, mark in zip(aligned([head, *rows], gap=" "), marks, strict=True)]
    return run_text(run, [fill(cell.note, WIDTH), "", *lines, *cell.remarks(run), *unsure(rows), ""])


def table_words(cell: type[Cell]) -> tuple[dict[str, str], dict[str, str]]:
    """Return what each heading of the table means, and the heading under which each figure of an exercise is read."""
    meanings, headings = {}, {}
    for column in cell.columns.values():
        for statistic in _statistics(column):
            heading = f"{column.heading or column.name} {statistic}"
            meanings[heading] = f"{column.about}, in ms: {STATISTIC_WORDS[statistic]}"
            headings[f"{column.name}.{statistic}"] = heading
            headings.setdefault(column.name, heading)
        if column.heading and column.name not in headings:
            unit = "ms" if column.unit == "us" else column.unit
            meanings.setdefault(column.heading, column.about + (f", in {unit}" if unit.isalpha() else ""))
            headings[column.name] = headings[f"{column.name}_share"] = column.heading
    return meanings, headings


def aligned(rows: Sequence[Sequence[str]], left: int = 0, gap: str = "  ") -> list[str]:
    """Return rows of as many texts each as lines, every column as wide as it must be; the first `left` flush left."""
    widths = [max(map(len, texts)) for texts in zip(*rows, strict=True)]
    signs = ["<"] * left + [">"] * (len(widths) - left)
    return [
        gap.join(f"{text:{sign}{width}}" for text, sign, width in zip(row, signs, widths, strict=True)).rstrip()
        for row in rows
    ]


def unsure(rows: Iterable[Sequence[str]]) -> list[str]:
    """Return what the mark beside a quantile means, [] if no text ends with it."""
    shown = any(text.endswith(UNSURE) for row in rows for text in row)
    return [f"{UNSURE} fewer than {FEWEST_BEYOND} messages lie beyond this quantile."] if shown else []


def _headings(column: Column[Any]) -> list[str]:
    name = column.heading or column.name
    return [f"{name} {statistic}" for statistic in _statistics(column)] or [name]


def _statistics(column: Column[Any]) -> tuple[str, ...]:
    return column.table if isinstance(column, Latency) else ()


def _texts(column: Column[Any], cell: Cell) -> Iterator[str]:
    value = column.of(cell)
    if isinstance(column, Latency):
        yield from (_in_ms(value.get(name), column.digits) + mark(name, value.get("n")) for name in column.table)
    elif isinstance(column, Figure):
        yield _in_ms(value, 3) if column.unit == "us" else number(value, 0, column.digits)
    else:
        yield column.text(value) if isinstance(column, Key) else str(value)


def _in_ms(microseconds: float | None, digits: int) -> str:
    return number(None if microseconds is None else microseconds / 1000, 0, digits)


def run_text(run: dict[str, Any], lines: Iterable[str]) -> str:
    """Return the table of a run: a title, `lines`, and whether it is valid; no line feed at its end."""
    title = f"{run['scenario']}, fidelity {run['fidelity']}, run {run['run_id']}"
    return "\n".join([title, *lines, *verdict(run)])


def invalid(cell: dict[str, Any]) -> str:
    """Return the end of a cell's line: a mark if the cell is INVALID."""
    return "" if cell["valid"] else " !"


def verdict(run: dict[str, Any], *, brief: bool = False, width: int = WIDTH) -> list[str]:
    """Return whether a run is valid, or why not; then what was not as wanted and is not required, `brief`: how many."""
    unmet = [t for t in run.get("treatments", []) if not (t["verified"] or t["required"])]
    if run["valid"]:
        noisy = "" if run.get("quiet", True) else ", not quiet"
        lines = [f"VALID{noisy}: every treatment {'that is required ' if unmet else ''}was found as wanted."]
    else:
        # A treatment's note says what to do.
        noted = {as_found({**one, "note": ""}): as_found(one) for one in run.get("treatments", [])}
        lines = ["INVALID:", *_items((noted.get(why, why) for why in run["invalid_because"]), width)]
    if noise := quiet.why_not(run):
        out = "no verdict rests on it" if not quiet.counts(run) else "it counts all the same, as --busy asked"
        lines += wrap(f"Not quiet: {noise}; {out}.", width, subsequent_indent="  ")
    if unmet and brief:
        lines.append(f"{plural(len(unmet), 'treatment')} not as wanted, and not required: ./lab show --treatments")
    elif unmet:
        lines += ["Not required, and not as wanted:", *_items(map(as_found, unmet), width)]
    return lines


def as_found(treatment: dict[str, Any]) -> str:
    """Return what a treatment is, what was wanted and what was found."""
    note = f" ({treatment['note']})" if treatment.get("note") else ""
    return f"{treatment['what']}: wanted {treatment['wanted']}, found {treatment['found']}{note}"


def _items(texts: Iterable[str], width: int) -> list[str]:
    return [line for text in texts for line in wrap(f"  - {text}", width, subsequent_indent="    ")]


def milliseconds(microseconds: float | None) -> str:
    """Return a latency in its column of nine."""
    return number(None if microseconds is None else microseconds / 1000, 9, 3)


def number(value: float | None, width: int, digits: int) -> str:
    """Return a figure in its column, a dash where there is none."""
    return f"{'-' if value is None else f'{value:.{digits}f}':>{width}}"
