"""./lab list: what there is to run and to learn, each with its load, its priorities, its time, what comes before it."""

import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap

from looplab.errors import EXIT_GOOD
from looplab.lab.checkout import Lab
from looplab.lab.scenarios import Scenario, experiments, scenarios

EXERCISES = Path("docs/exercises")
HEAD = ("", "title", "load", "first", "min", "after")
WIDTHS = (17, 25, 6, 10, 3, 14)
NOTES = """first: parts at real-time priority. min: a student's minutes by the lab card.
after: what comes before it. Run one with `./lab run NAME`."""
_ROW = re.compile(r"^\| (time|before this) \| (.*?) \|$", re.MULTILINE)


def list_all(root: Path) -> int:
    """Print every scenario, experiment and exercise; return the exit code."""
    environment = Lab(root).settings()
    for heading, entries in (("scenarios", scenarios(root)), ("experiments", experiments(root))):
        print("\n".join(_lines((heading, *HEAD[1:]))))
        for scenario in entries.values():
            folder = next(root.glob(f"compose/*/{scenario.name}"))
            print("\n".join(_lines(_scenario(scenario, environment, folder))))
        print()
    print("\n".join(_lines(("exercises", *HEAD[1:]))))
    for path in sorted((root / EXERCISES).glob("*/README.md")):
        title = path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# Exercise: ")
        print("\n".join(_lines((path.parent.name, title, "", "", *_card(path)))))
    print(f"\n{NOTES}")
    return EXIT_GOOD


def _scenario(scenario: Scenario, environment: dict[str, str], folder: Path) -> tuple[str, ...]:
    parameters = scenario.parameters(environment)
    load = getattr(parameters, "load", "none")
    first = [part for part in ("broker", "controller") if getattr(parameters, f"priority_{part}", 0)]
    card = _card(folder / "README.md")
    return scenario.name, scenario.title, load.replace("none", "-"), ", ".join(first) or "-", *card


def _card(path: Path) -> tuple[str, str]:
    """Return minutes and what comes before, as the lab card of a handout says; "-" if it has none."""
    text = re.sub(r"\[(\S+)\]\(\S+\)", r"\1", path.read_text(encoding="utf-8")) if path.is_file() else ""
    rows = dict(_ROW.findall(text))
    return rows.get("time", "-").partition(" ")[0], rows.get("before this", "-")


def _lines(texts: tuple[str, ...]) -> Iterator[str]:
    """Yield the lines of one row; a text wider than its column goes on below."""
    columns = [wrap(text, width) or [""] for text, width in zip(texts, WIDTHS, strict=True)]
    for number in range(max(map(len, columns))):
        cells = [column[number] if number < len(column) else "" for column in columns]
        yield " ".join(f"{cell:<{width}}" for cell, width in zip(cells, WIDTHS, strict=True)).rstrip()
