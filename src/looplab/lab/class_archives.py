"""Two archives of this checkout for a class: one for students, and one with what only teachers should read."""

import os
import re
import tarfile
from collections.abc import Iterable, Mapping
from io import BytesIO
from pathlib import Path

from looplab.errors import MachineError
from looplab.lab.programs import call

FOLDER = "looplab"
# What answers the questions, and how answers are marked.
FOR_TEACHERS = ("docs/answers.md", "docs/marking.md", "docs/teaching.md")
LINK = re.compile(r"\[([^\]]+)\]\(([^)#\s]+)(?:#[^)\s]*)?\)")
# In a students' checkout ./lab check prints no figure; its presence is what counts.
STUDENTS_MARK = ".students"
# Without git: what a checkout gathers, and what is secret.
GATHERED = {".git", ".venv", ".cache", "results", "report", "answers", "secrets", ".env.machine", STUDENTS_MARK}


def write_archives(root: Path, bundle: Path) -> tuple[Path, Path]:
    """Write NAME-students.tar.gz and NAME-teachers.tar.gz next to a bundle called NAME; return both paths.

    The teachers' archive unpacks over a students' checkout and completes it.
    """
    files = checkout_files(root)
    kept = [name for name in files if name not in FOR_TEACHERS]
    pages = {name: (root / name).read_text(encoding="utf-8") for name in kept if name.endswith(".md")}
    changed = {name: text for name in pages if (text := without_links(name, pages[name])) != pages[name]}
    students, teachers = (bundle.with_name(f"{bundle.stem}-{who}.tar.gz") for who in ("students", "teachers"))
    mark = "./lab check says right or not right here, never the figure.\n"
    _write(students, root, [name for name in kept if name not in changed], {**changed, STUDENTS_MARK: mark})
    _write(teachers, root, [name for name in files if name in FOR_TEACHERS or name in changed], {})
    return students, teachers


def without_links(name: str, text: str) -> str:
    """Return the page `name` as students get it: what only teachers have is named there, not linked."""

    def put(link: re.Match[str]) -> str:
        target = os.path.normpath(os.path.join(os.path.dirname(name), link[2]))
        return f"{link[1]} (in the teachers' archive)" if target in FOR_TEACHERS else link[0]

    return LINK.sub(put, text)


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
    except OSError as error:
        message = f"{file} cannot be written: {error.strerror}."
        raise MachineError(message, "Name a place with more room.") from error
    finally:
        partial.unlink(missing_ok=True)


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Return the member as its reader's own: the name of this machine's user is nobody's business."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
