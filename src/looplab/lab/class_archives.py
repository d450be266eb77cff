"""Two archives of this checkout for a class: one for students, and one with what only teachers should read."""

import re
import tarfile
from collections.abc import Iterable, Mapping
from io import BytesIO
from pathlib import Path

from looplab.errors import MachineError
from looplab.lab.programs import call

FOLDER = "looplab"
# These hold the answers, beside each handout, and how they are marked.
ANSWERS, EXPECTED = "answers.txt", "/expected.yaml"
FOR_TEACHERS = ("docs/teaching.md",)
NOTE = "This page is in the teachers' archive.\n"
# Where this file exists, ./lab check prints no figure.
STUDENTS_MARK = ".students"
MARK = "./lab check says right or not right here, never the figure.\n"


def write_archives(root: Path, bundle: Path) -> tuple[Path, Path]:
    """Write NAME-students.tar.gz and NAME-teachers.tar.gz next to a bundle called NAME; return both paths.

    Students get a note in place of each page for teachers; the teachers' archive unpacks over their checkout.
    """
    students, teachers = (bundle.with_name(f"{bundle.stem}-{who}.tar.gz") for who in ("students", "teachers"))
    files = checkout_files(root)
    keys = {name: without_keys((root / name).read_text(encoding="utf-8")) for name in files if name.endswith(EXPECTED)}
    notes = {**dict.fromkeys(FOR_TEACHERS, NOTE), **keys, STUDENTS_MARK: MARK}
    kept = [name for name in files if name in FOR_TEACHERS or Path(name).name == ANSWERS]
    _write(students, root, [name for name in files if name not in kept and name not in keys], notes)
    _write(teachers, root, [*kept, *keys], {})
    return students, teachers


def without_keys(expected: str) -> str:
    """Return the text of an expected.yaml without the right options."""
    return re.sub(r"^ +right: .*\n", "", expected, flags=re.MULTILINE)


def checkout_files(root: Path, *more: str) -> list[str]:
    """Return the files that git tracks, and those for which `more` options ask. Raises LabError (exit code 3)."""
    listed = call(["git", "-C", str(root), "ls-files", "-z", "--cached", *more])
    if not listed.good:
        raise MachineError(f"git does not list the files: {listed.reason}", "Take a checkout by `git clone`.")
    return sorted(name for name in listed.stdout.split("\0") if name and (root / name).is_file())


def _write(file: Path, root: Path, names: Iterable[str], texts: Mapping[str, str]) -> None:
    partial = file.with_name(f".{file.name}.partial")
    try:
        with tarfile.open(partial, "w:gz", compresslevel=6) as archive:
            for name in names:
                archive.add(root / name, f"{FOLDER}/{name}", recursive=False, filter=_without_owner)
            for name, text in texts.items():
                member = tarfile.TarInfo(f"{FOLDER}/{name}")
                member.size = len(text.encode())
                archive.addfile(member, BytesIO(text.encode()))
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Return the member without the name of this machine's user."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
