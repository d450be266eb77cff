"""What a student hands in: the folders of runs and the filled-in forms, wherever they are in the student's folder."""

import hashlib
import re
import shutil
import stat
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from looplab.errors import LabError, UsageError
from looplab.exercises.choice import RUNS_LINE
from looplab.exercises.exercise import Exercise
from looplab.report.stored import StoredRun, Unusable, read_run
from looplab.spec.experiment import Experiments

# The line of a form with the reason for a choice ends so; another one is for a point that a student thinks is wrong.
REASON, DISPUTE = "-because", "dispute"
# What an archive may hold once it is unpacked, and a form.
MOST_BYTES, MOST_FILES, MOST_FORM_BYTES = 64 << 20, 10_000, 1 << 16


@dataclass(frozen=True)
class HandIn:
    """One student's folder: its runs, and its forms by exercise."""

    runs: Sequence[StoredRun | Unusable]
    forms: Mapping[str, Path]

    def answers(self, exercise: str) -> tuple[Mapping[str, Any], str]:
        """Return the answers by question, none without a form, and why the form cannot be read, "" if it can."""
        try:
            return (read_form(self.forms[exercise]) if exercise in self.forms else {}), ""
        except LabError as error:
            return {}, error.message


def read_form(path: Path) -> dict[str, Any]:
    """Return the answers of one form by question; LabError (exit code 1) if it is not `name: answer` lines."""
    try:
        if not path.is_file() or path.stat().st_size > MOST_FORM_BYTES:
            raise TypeError(f"it is no file of at most {MOST_FORM_BYTES} bytes")
        document = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        if not isinstance(document, dict):
            raise TypeError("it has no questions")
        answers = [one for value in document.values() for one in (value if isinstance(value, list) else [value])]
        # A few lines of aliases within aliases would be gigabytes of text.
        if any(isinstance(one, list | dict | set | tuple) for one in [*document, *answers]):
            raise TypeError("an answer is one word or number")
        return {str(key): value for key, value in document.items()}
    except (yaml.YAMLError, OSError, ValueError, TypeError, RecursionError) as error:
        why = " ".join(str(error).split())
        raise LabError(f"{path} cannot be read: {why}", "Write one `name: answer` a line, as in the form.") from error


def hand_ins(
    places: Sequence[Path], unpacked: Path, experiments: Experiments
) -> Iterator[tuple[str, Callable[[], HandIn]]]:
    """Yield each student's name, and what reads the hand-in: an archive of `./lab hand-in`, or a folder in a folder.

    Archives are read in `unpacked`, each until the next one is asked for. Reading raises whatever is wrong with it.
    Raises LabError (exit code 2) for a place that is neither.
    """
    for number, place in enumerate(places):
        if place.suffix == ".zip":
            if not place.is_file():
                raise UsageError(f"There is no file {place}.", "Name archives of `./lab hand-in`.")
            # Two archives may have the same name.
            folder = unpacked / str(number) / place.stem
            yield place.stem, partial(_unpacked, place, folder, experiments)
            # A class together may be larger than the memory that holds this folder.
            shutil.rmtree(folder, ignore_errors=True)
        else:
            students = sorted(path for path in place.glob("[!.]*") if path.is_dir())
            if not students:
                raise UsageError(f"{place} holds no student's folder.", "Name archives of `./lab hand-in`.")
            for folder in students:
                yield folder.name, partial(read_hand_in, folder, experiments)


def _unpacked(archive: Path, folder: Path, experiments: Experiments) -> HandIn:
    """Return what is in an archive. Raises ValueError for one too large, and what zipfile raises."""
    with zipfile.ZipFile(archive) as file:
        members = file.infolist()
        if len(members) > MOST_FILES or sum(member.file_size for member in members) > MOST_BYTES:
            raise ValueError(f"it holds more than {MOST_FILES} files or {MOST_BYTES >> 20} MiB")
        # extractall keeps every member below the folder, whatever its name says.
        file.extractall(folder)
    return read_hand_in(folder, experiments)


def read_hand_in(folder: Path, experiments: Experiments) -> HandIn:
    """Return what is in one student's folder, at any depth. Raises ValueError if that is not only files and folders."""
    # A link leads out of the folder, a pipe or a device has no end.
    kinds = [(path.name, path.lstat().st_mode) for path in folder.rglob("*")]
    if odd := [name for name, mode in kinds if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))]:
        raise ValueError(f"{odd[0]} is neither a file nor a folder")
    places = sorted({path.parent for name in ("run.json", "samples.csv") for path in folder.rglob(name)})
    forms = {path.stem: path for path in sorted(folder.rglob("*.yaml"), reverse=True)}
    return HandIn([read_run(place, experiments, any_name=True) for place in places], forms)


def write_hand_in(file: Path, exercise: str, runs: Sequence[StoredRun], form: Path) -> list[str]:
    """Put runs and filled form of an exercise into an archive; return the exercises that it held before.

    The same exercise is replaced, the others stay. Raises LabError for a file that is no such archive, and OSError.
    """
    text = form.read_text(encoding="utf-8") if form.is_file() else ""
    before = _members(file) if file.exists() else {}
    fresh = file.with_name(f".{file.name}.new")
    try:
        with zipfile.ZipFile(fresh, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in before.items():
                if not name.startswith(f"{exercise}/"):
                    archive.writestr(name, content)
            archive.writestr(f"{exercise}/{exercise}.yaml", with_runs(text, [run.run_id for run in runs]))
            # A task's program or Compose file is beside the form.
            for own in sorted({*form.parent.glob(f"{exercise}.*")} - {form}):
                archive.write(own, f"{exercise}/{own.name}")
            for path in sorted(path for run in runs for path in run.path.iterdir()):
                archive.write(path, f"{exercise}/{path.parent.name}/{path.name}")
            size = sum(member.file_size for member in archive.infolist())
        if size > MOST_BYTES:
            raise LabError(
                f"{file.name} would hold {size >> 20} MiB: more than {MOST_BYTES >> 20} MiB is not marked.",
                "Repeat the run with fewer messages, or hand in each exercise under a --name of its own.",
            )
        fresh.replace(file)
    finally:
        fresh.unlink(missing_ok=True)
    return sorted({name.partition("/")[0] for name in before})


def _members(file: Path) -> dict[str, bytes]:
    """Return the files in an archive of hand-ins. LabError for any other file, and a damaged one."""
    try:
        with zipfile.ZipFile(file) as archive:
            return {one.filename: archive.read(one) for one in archive.infolist() if not one.is_dir()}
    # What zipfile raises for damage differs from place to place.
    except Exception as error:
        message = f"{file.name} is no archive of `./lab hand-in`: {' '.join(str(error).split())}. It stays as it is."
        raise LabError(message, "Move it away, or hand in under another --name.") from error


def with_runs(form: str, ids: Iterable[str]) -> str:
    """Return the text of a form that names the runs its answers belong to, e.g. in its last line `runs: [a, b]`."""
    rest = re.sub(rf"^{RUNS_LINE}:.*\n?(?:[ \t]*-.*\n?)*", "", form, flags=re.MULTILINE).rstrip("\n")
    return (
        f"{rest}\n\n{RUNS_LINE}: [{', '.join(ids)}]  # of your answers; without this line the newest count\n".lstrip()
    )


def answer_form(exercise: Exercise) -> str:
    """Return a YAML file to fill in: each question as a comment, its name with nothing behind it."""
    lines = [f"# {exercise.title}. Write your answer behind each colon, then: ./lab check {exercise.name}"]
    for question in exercise.questions:
        when = "Before you run: " if question.predicts else ""
        lines += ["", f"# {when}{question.asks}"]
        lines += [f"#   {option}: {text}" for option, text in question.options.items()]
        if question.figure is not None:
            lines.append(f"#   (a number{f' in {question.unit}' if question.unit else ''})")
        lines.append(f"{question.name}:")
        if question.reasoned:
            lines.append(f"{question.name}{REASON}:  # your reason, in a sentence")
    lines += ["", "# Is a point wrong? Name it, and say why: your teacher reads it.", f"{DISPUTE}:"]
    return "\n".join(lines) + "\n"


def earlier_owner(owners: dict[str, str], run: StoredRun, student: str) -> str:
    """Return the student who handed in that very run before, "" if nobody did; `owners` are filled in.

    The same token or the same samples are the same run. Two students may have started in the same second.
    """
    earlier = [owners.setdefault(mark, student) for mark in _marks_of(run)]
    return next((owner for owner in earlier if owner != student), "")


def _marks_of(run: StoredRun) -> Iterator[str]:
    if token := run.document.get("token"):
        yield f"token {token}"
    with (run.path / "samples.csv").open("rb") as samples:
        yield hashlib.file_digest(samples, "sha256").hexdigest()
