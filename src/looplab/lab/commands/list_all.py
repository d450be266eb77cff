"""./lab list: what there is to run and to learn, each with its load, its time, and what comes before it."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import wrap

from looplab.errors import EXIT_GOOD
from looplab.lab.scenarios import Scenario, experiments, scenarios

EXERCISES = Path("docs/exercises")
HEAD = ("title", "load", "min", "after")
# These are the widths of the columns after name and title, which share the rest of 80.
WIDTHS = (6, 3, 17)
NOTES = "min: a student's minutes. after: what comes before it. Run: `./lab run NAME`."
_ROW = re.compile(r"^\| (time|before this) \| (.*?) \|$", re.MULTILINE)


def list_all(root: Path) -> int:
    """Print every scenario, experiment and exercise; return the exit code."""
    for heading, entries in (("scenarios", scenarios(root)), ("experiments", experiments(root))):
        folders = {name: next(root.glob(f"compose/*/{name}")) for name in entries}
        _print(heading, [_scenario(one, folders[name]) for name, one in entries.items()])
    pages = sorted((root / EXERCISES).glob("*/README.md"))
    titles = [path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# Exercise: ") for path in pages]
    _print(
        "exercises", [(path.parent.name, title, "", *_card(path)) for path, title in zip(pages, titles, strict=True)]
    )
    print(NOTES)
    return EXIT_GOOD


def _scenario(scenario: Scenario, folder: Path) -> tuple[str, ...]:
    return scenario.name, scenario.title, scenario.settings.get("LOAD", "-"), *_card(folder / "README.md")


def _card(path: Path) -> tuple[str, str]:
    """Return minutes and what comes before, as the lab card of a handout says; "-" if it has none."""
    text = re.sub(r"\[(\S+)\]\(\S+\)", r"\1", path.read_text(encoding="utf-8")) if path.is_file() else ""
    rows = dict(_ROW.findall(text))
    return rows.get("time", "-").partition(" ")[0], rows.get("before this", "-")


def _print(heading: str, rows: Sequence[tuple[str, ...]]) -> None:
    name = max(len(text) for text, *_ in [(heading,), *rows])
    widths = (name, 80 - name - sum(WIDTHS) - len(WIDTHS) - 1, *WIDTHS)
    print("\n".join(line for texts in [(heading, *HEAD), *rows] for line in _lines(texts, widths)), end="\n\n")


def _lines(texts: tuple[str, ...], widths: Sequence[int]) -> Iterator[str]:
    """Yield the lines of one row; a text wider than its column goes on below."""
    columns = [wrap(text, width) or [""] for text, width in zip(texts, widths, strict=True)]
    for number in range(max(map(len, columns))):
        cells = [column[number] if number < len(column) else "" for column in columns]
        yield " ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip()
