"""When each prediction was written: recorded by ./lab run before it starts, and by ./lab check.

Standard library only: `./lab run` needs no package. The record is beside the forms, where no editor overwrites it;
`./lab check` copies it into the form, so that a form that is handed in carries its times.
"""

import contextlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

ANSWERS = Path("answers")
RECORD = ".predictions.json"
# What the lab's exercises call this question: ./lab run copies its time without reading expected.yaml.
USUAL_NAME = "prediction"
TIME_FORM = "%Y%m%dT%H%M%SZ"
# A run's id comes from the engine's clock, which may be that of a virtual machine beside this one.
CLOCK_SLACK = timedelta(seconds=60)
_LINE = re.compile(r"^([\w-]+):[ \t]*([^\s#][^#\n]*)", re.MULTILINE)
_STAMP = re.compile(r"^# recorded: ([\w-]+) = (.+) at (\d{8}T\d{6}Z)$", re.MULTILINE)
_STAMPS_HEAD = "# Recorded by the lab; leave these lines as they are."


@dataclass(frozen=True, order=True)
class Seen:
    """An answer to a question, and when the form first held it (UTC)."""

    at: datetime
    question: str
    answer: str


def record_predictions(root: Path) -> None:
    """Record every answer in every form of `root`/answers with the time of its form.

    The time is the form's last change: the answer was there by then. Never raises: a run must not fail for a form.
    """
    folder = root / ANSWERS
    with contextlib.suppress(OSError, ValueError):
        record = _read_record(folder)
        found = {form.stem: _merged(record.get(form.stem, []), seen_in(form)) for form in sorted(folder.glob("*.yaml"))}
        if found != {name: record.get(name, []) for name in found}:
            content = {name: [_as_json(seen) for seen in entries] for name, entries in {**record, **found}.items()}
            (folder / RECORD).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        for name in found:
            stamp_form(folder / f"{name}.yaml", [USUAL_NAME])


def seen_in(form: Path) -> list[Seen]:
    """Return the answers in a form: recorded ones with their time, others with the time of the form's last change."""
    text = form.read_text(encoding="utf-8")
    changed = datetime.fromtimestamp(int(form.stat().st_mtime), UTC)
    stamped = [Seen(_time(at), question, answer) for question, answer, at in _STAMP.findall(text)]
    written = [Seen(changed, question, _plain(answer)) for question, answer in _LINE.findall(text)]
    return _merged(stamped, written)


def times_of(form: Path) -> list[Seen]:
    """Return all that is known of a form's answers: from the record beside it and from the form itself."""
    try:
        return _merged(_read_record(form.parent).get(form.stem, []), seen_in(form))
    except (OSError, ValueError):
        return []


def stamp_form(form: Path, predictions: Iterable[str]) -> None:
    """Copy the times of `predictions` (names of questions) into their form, unless they are there.

    The form keeps the time of its last change: it dates what the student wrote.
    """
    changed = form.stat()
    text = form.read_text(encoding="utf-8")
    names = set(predictions)
    lines = [f"# recorded: {s.question} = {s.answer} at {s.at:{TIME_FORM}}" for s in times_of(form)
             if s.question in names]  # fmt: skip
    if missing := [line for line in lines if line not in text.splitlines()]:
        head = [] if _STAMPS_HEAD in text else ["", _STAMPS_HEAD]
        form.write_text("\n".join([text.rstrip("\n"), *head, *missing]) + "\n", encoding="utf-8")
        os.utime(form, ns=(changed.st_atime_ns, changed.st_mtime_ns))


def too_late(question: str, answer: str, seen: Iterable[Seen], run_id: str) -> str:
    """Return why a prediction does not count for that run, "" if it was written before the run started."""
    started = _started(run_id)
    if started is None:
        return ""
    known = sorted(s for s in seen if s.question == question)
    before = [s for s in known if s.at <= started + CLOCK_SLACK]
    if any(s.answer == answer for s in before):
        return ""
    if before:
        return (
            f"changed to {answer} after the run {run_id} started; you predicted {before[-1].answer} at "
            f"{before[-1].at:%H:%M} UTC: write that again"
        )
    when = f"at {known[0].at:%Y-%m-%d %H:%M} UTC" if known else "at an unknown time"
    return (
        f"written {when}, after the run {run_id} started: a prediction comes before its run. For the point, predict "
        "first next time"
    )


def _read_record(folder: Path) -> Mapping[str, list[Seen]]:
    """Return what was recorded, by name of the form; nothing if there is no record or it was damaged."""
    try:
        content = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        return {
            str(name): [Seen(_time(e["at"]), str(e["question"]), str(e["answer"])) for e in entries]
            for name, entries in content.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _merged(known: Iterable[Seen], more: Iterable[Seen]) -> list[Seen]:
    """Return each answer once, with its earliest time, the earliest first."""
    first: dict[tuple[str, str], Seen] = {}
    for seen in sorted([*known, *more]):
        first.setdefault((seen.question, seen.answer), seen)
    return sorted(first.values())


def _as_json(seen: Seen) -> dict[str, str]:
    return {"question": seen.question, "answer": seen.answer, "at": f"{seen.at:{TIME_FORM}}"}


def _started(run_id: str) -> datetime | None:
    try:
        return _time(run_id[:16])
    except ValueError:
        return None


def _time(text: str) -> datetime:
    return datetime.strptime(text, TIME_FORM).replace(tzinfo=UTC)


def _plain(answer: str) -> str:
    return answer.strip().strip("'\"")
