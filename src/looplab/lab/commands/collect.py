"""./lab collect: one table, one page and one figure a scenario of a whole class."""

import sys
from collections.abc import Sequence
from pathlib import Path

from looplab.errors import EXIT_GOOD, MachineError
from looplab.exercises.class_figure import ClassFigure, class_figure
from looplab.exercises.collection import Collection, Row, collect, score_rows
from looplab.experiments.registry import EXPERIMENTS
from looplab.report.page import page
from looplab.report.shell import write_csv
from looplab.system.terminal import fitted

TEMPLATE = Path(__file__).resolve().parents[2] / "exercises" / "class_page.html.j2"
DEFAULT_OUT = Path("report/class")
PAGE = "index.html"
# What the page shows of a figure's table.
SHOWN = ("student", "machine", "sent", "lost", "p50_ms", "p95_ms", "p99_ms")


def command(root: Path, folders: Sequence[Path], out: Path | None = None) -> int:
    """Collect what is in `folders`, each with one folder for each student, and write it to `out`.

    Exit code 0, also if students lost points: the table is the result. LabError (2) for a folder without students.
    """
    found = collect(root, folders, EXPERIMENTS)
    made = {key: class_figure(*key, held) for key, held in found.newest().items()}
    figures = [figure for figure in made.values() if figure is not None]
    undrawn = sorted({scenario for (scenario, _fidelity), figure in made.items() if figure is None})
    place = out or root / DEFAULT_OUT
    try:
        _write(place, found, figures, undrawn)
    except OSError as error:
        message = f"The class cannot be written to {place}: {error.strerror}."
        raise MachineError(message, "Name another folder: --out DIR") from error
    print(overview(found))
    print(place / PAGE)
    return EXIT_GOOD


def overview(found: Collection) -> str:
    """Return each student's scores and what was handed in twice, in lines of at most 80 columns."""
    counts = {"student": len(found.students), "run": len(found.runs), "machine": len(found.machines)}
    lines = [", ".join(f"{count} {name}{'' if count == 1 else 's'}" for name, count in counts.items())]
    for student in found.students:
        scores = [
            f"{name} {scored.marked.got}/{scored.marked.worth}"
            + (f" ({scored.marked.exempt} exempt)" if scored.marked.exempt else "")
            for name in found.exercises
            if (scored := found.score(student, name)) is not None
        ]
        lines.append(f"  {student:<20} {', '.join(scores) or 'nothing to mark'}")
    lines += [f"{c.student}: {c.run.run_id} is the very run that {c.copy_of} handed in" for c in found.copies]
    return fitted("\n".join(lines), sys.stdout, " " * 23)


def _write(place: Path, found: Collection, figures: Sequence[ClassFigure], undrawn: Sequence[str]) -> None:
    place.mkdir(parents=True, exist_ok=True)
    tables: dict[str, Sequence[Row]] = {
        "scores.csv": score_rows(found.scores),
        "runs.csv": found.run_rows(),
        "machines.csv": [{"machine": letter, "text": text} for letter, text in found.machines.items()],
    }
    for figure in figures:
        name = figure.drawing.name
        (place / f"{name}.svg").write_bytes(figure.drawing.svg)
        (place / f"{name}.png").write_bytes(figure.drawing.png)
        tables[f"{name}.csv"] = figure.rows
    for name, rows in tables.items():
        write_csv(place / name, rows)
    given = {"found": found, "figures": figures, "undrawn": undrawn, "columns": SHOWN, "files": list(tables)}
    text = page(TEMPLATE, given)
    (place / PAGE).write_text(text, encoding="utf-8")
