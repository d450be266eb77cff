"""One owner for what is written: of a checkout's files by `sudo ./lab`, of reports by `./lab` and plain Compose."""

import os
import stat
from pathlib import Path

# The folders that LAB_UID and the user of `./lab` both write into.
SHARED = ("report", "answers")


def give_back(root: Path) -> None:
    """Give each file and folder of root's below `root` to the owner of `root`, if this is root and that is another."""
    owner = root.stat()
    if not os.geteuid() and owner.st_uid:
        _give(root, 0, owner)


def take_over(root: Path, uid: int) -> None:
    """Give root what plain Compose wrote as `uid` into the shared folders of root's own checkout.

    In a container without capabilities root itself may change no file of another user.
    """
    owner = root.stat()
    if not os.geteuid() and not owner.st_uid:
        for folder in filter(Path.is_dir, (root / name for name in SHARED)):
            _give(folder, uid, owner)


def _give(root: Path, uid: int, owner: os.stat_result) -> None:
    """Give what `uid` has below `root` to another owner.

    No symbolic link is followed. A file with a second name stays: that name may lie outside the checkout.
    """
    for _, folders, files, place in os.fwalk(root):
        for name in (*folders, *files):
            facts = os.stat(name, dir_fd=place, follow_symlinks=False)
            if facts.st_uid == uid and (stat.S_ISDIR(facts.st_mode) or facts.st_nlink == 1):
                os.chown(name, owner.st_uid, owner.st_gid, dir_fd=place, follow_symlinks=False)
