"""The robot's board on this machine: the lab's firmware in its simulator, on a pseudo-terminal."""

import os
import signal
import subprocess
from pathlib import Path

from support.containers import copy_out
from support.waiting import until

# The board's program and its firmware, in the robot's image.
ROBOT_FILES = ("/usr/local/bin/robot", "/usr/share/looplab/mbot_ranger.hex")


class Board:
    """Program and firmware are copied out of `image` into `folder`, which is made."""

    def __init__(self, folder: Path, image: str) -> None:
        self._folder = folder
        folder.mkdir()
        copy_out(image, folder, *ROBOT_FILES)
        self._process = self._start()
        until(self._port.is_symlink, "the robot's pseudo-terminal", 30)
        self.device = os.readlink(self._port)

    def reset(self) -> None:
        """Its reset button, or its DTR line."""
        self._process.send_signal(signal.SIGUSR2)

    def close(self) -> None:
        self._process.kill()
        self._process.wait(30)

    @property
    def _port(self) -> Path:
        return self._folder / "port"

    def _start(self) -> subprocess.Popen[bytes]:
        firmware = self._folder / "mbot_ranger.hex"
        words = [str(self._folder / "robot"), "--firmware", str(firmware), "--pty", str(self._port)]
        with (self._folder / "robot.log").open("ab") as log:
            return subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)
