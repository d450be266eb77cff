"""A board on this machine: firmware in the lab's simulator, on a pseudo-terminal."""

import os
import signal
from pathlib import Path

from support.containers import copy_out
from support.parts import Child
from support.waiting import until

# The board's program and its firmware, in the robot's image.
ROBOT_FILES = ("/usr/local/bin/robot", "/usr/share/looplab/mbot_ranger.hex")


class Board:
    """`files` holds program and firmware; `port` is a link to the pseudo-terminal `device`."""

    def __init__(self, files: Path, folder: Path, firmware: str, port: Path, *options: str) -> None:
        self.port = port
        # That of a board that was killed.
        port.unlink(missing_ok=True)
        words = [str(files / "robot"), "--firmware", str(files / firmware), "--pty", str(port), *options]
        self._child = Child(words, folder / "board.log")
        until(port.is_symlink, f"the board's port: {self._child.said()}", 30)
        self.device = os.readlink(port)

    def reset(self) -> None:
        """Its reset button, or its DTR line."""
        self._child.signal(signal.SIGUSR2)

    def close(self) -> None:
        """Ask it to end: its trace is whole then."""
        if self._child.process.poll() is None:
            self._child.stop()

    def kill(self) -> None:
        self._child.kill()


def robot_board(folder: Path, image: str) -> Board:
    """Return the robot's board; its files are copied out of `image` into `folder`, which is made."""
    folder.mkdir()
    copy_out(image, folder, *ROBOT_FILES)
    return Board(folder, folder, "mbot_ranger.hex", folder / "port")
