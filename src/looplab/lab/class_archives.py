"""Two archives of this checkout for a class: one for students, and one with what only teachers should read."""

import tarfile
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path

from looplab.errors import EXIT_MACHINE, LabError
from looplab.lab.programs import call

FOLDER = "looplab"
# What answers the questions, and how answers are marked.
FOR_TEACHERS = ("docs/answers.md", "docs/marking.md", "docs/teaching.md")
# In a students' checkout ./lab check prints no figure; its presence is what counts.
STUDENTS_MARK = ".students"
# Without git: what a checkout gathers, and what is secret.
GATHERED = {".git", ".venv", ".cache", "results", "report", "answers", "secrets", ".env.machine", STUDENTS_MARK}


def write_archives(root: Path, beside: Path) -> tuple[Path, Path]:
    """Write NAME-students.tar.gz and NAME-teachers.tar.gz beside a bundle called NAME; return both paths.

    The teachers' archive unpacks over a students' checkout and completes it.
    """
    files = checkout_files(root)
    students, teachers = (beside.with_name(f"{beside.stem}-{who}.tar.gz") for who in ("students", "teachers"))
    mark = "./lab check says right or not right here, never the figure.\n"
    _write(students, root, [name for name in files if name not in FOR_TEACHERS], {STUDENTS_MARK: mark})
    _write(teachers, root, [name for name in files if name in FOR_TEACHERS], {})
    return students, teachers


def checkout_files(root: Path) -> list[str]:
    """Return the files of the lab, without results, answers and secrets."""
    listed = call(["git", "-C", str(root), "ls-files", "-z"])
    if listed.good and listed.stdout:
        names: Iterable[str] = listed.stdout.split("\0")
    else:
        names = (str(path.relative_to(root)) for path in root.rglob("*"))
    return sorted(name for name in names if name and _belongs(root, Path(name)))


def _belongs(root: Path, name: Path) -> bool:
    return name.parts[0] not in GATHERED and "__pycache__" not in name.parts and (root / name).is_file()


def _write(file: Path, root: Path, names: Iterable[str], texts: dict[str, str]) -> None:
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
    except OSError as error:
        message = f"{file} cannot be written: {error.strerror}."
        raise LabError(message, "Name a place with more room.", EXIT_MACHINE) from error
    finally:
        partial.unlink(missing_ok=True)


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Return the member as its reader's own: the name of this machine's user is nobody's business."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
