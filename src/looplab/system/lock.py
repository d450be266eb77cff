"""A file that one process holds: the kernel releases it when that process ends, however it ends."""

import contextlib
import errno
import fcntl
import os
import stat
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

# A process that reads the holder's name locks the file for an instant, too.
_TRIES, _PAUSE_S = 10, 0.1
# Any user may write the file: what is shown of it is short and printable.
_LONGEST = 300


class Held(Exception):
    """Another process holds the file; the message is what that process wrote into it."""


def hold(path: Path, who: str) -> IO[str]:
    """Hold `path` until the returned file is closed or this process ends; others read `who` meanwhile, and since when.

    Safe in a folder where all users may write. Raises Held, OSError.
    """
    # Create it, then open it: in a sticky folder the kernel refuses O_CREAT for a file of another user.
    with contextlib.suppress(FileExistsError):
        fresh = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        os.fchmod(fresh, 0o666)
        os.close(fresh)
    file = _opened(path, os.O_RDWR, "r+")
    if not _free(file, fcntl.LOCK_EX, _TRIES):
        with file:
            raise Held(_words(file))
    file.truncate(0)
    file.write(f"{who}, since {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC")
    file.flush()
    return file


def holder(path: Path) -> str:
    """Return what the process that holds `path` wrote into it, "" if none does."""
    with contextlib.suppress(OSError), _opened(path, os.O_RDONLY, "r") as file:
        return "" if _free(file, fcntl.LOCK_SH) else _words(file)
    return ""


def _opened(path: Path, flags: int, mode: str) -> IO[str]:
    number = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
    facts = os.fstat(number)
    if not stat.S_ISREG(facts.st_mode) or facts.st_nlink != 1:
        os.close(number)
        raise OSError(errno.EINVAL, "not a plain file of one name", str(path))
    return os.fdopen(number, mode, encoding="utf-8", errors="replace")


def _free(file: IO[str], kind: int, tries: int = 1) -> bool:
    """Lock `file` and return whether that was possible."""
    for left in reversed(range(tries)):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(file, kind | fcntl.LOCK_NB)
            return True
        time.sleep(_PAUSE_S if left else 0)
    return False


def _words(file: IO[str]) -> str:
    return "".join(letter for letter in file.read(_LONGEST) if letter.isprintable()) or "another process"
