"""Work that may block, in a helper thread."""

import threading
from collections.abc import Callable
from time import sleep
from typing import Generic, TypeVar

from looplab.errors import LabError

T = TypeVar("T")


class Attempt(threading.Thread, Generic[T]):
    """Does `work` once, after a pause; read `result` and `error` (a LabError's message) once the thread has ended."""

    def __init__(self, work: Callable[[], T], pause_s: float) -> None:
        super().__init__(daemon=True)
        self.result: T | None = None
        self.error = ""
        self._work, self._pause_s = work, pause_s
        self.start()

    def run(self) -> None:
        """Pause, then work."""
        sleep(self._pause_s)
        try:
            self.result = self._work()
        except LabError as error:
            self.error = error.message
