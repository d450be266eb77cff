"""The helper process of a back end: forked by the service, it outlives the service by what it must clean up."""

import multiprocessing
import os
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection

from looplab.system import own_process

PROCESS_NAME = "lab-link"
END_TIMEOUT_S = 10.0


class Helper:
    """Runs `work(pipe)` in a process of its own; the pipe ends with the service, and None asks the process to end."""

    def __init__(self, work: Callable[[Connection], None]) -> None:
        self.pipe, theirs = multiprocessing.Pipe()
        # Forked, not spawned: nothing is imported again, and no thread runs yet.
        fork = multiprocessing.get_context("fork")
        self.process = fork.Process(target=_live, args=(work, theirs, self.pipe), daemon=True)
        self.process.start()
        theirs.close()

    def end(self) -> None:
        """Ask the process to end, and wait until it has."""
        if self.process.is_alive():
            self.pipe.send(None)
            self.process.join(END_TIMEOUT_S)


def _live(work: Callable[[Connection], None], pipe: Connection, other_end: Connection) -> None:
    # If the helper kept it open, the pipe would not end with the service.
    other_end.close()
    own_process.set_name(PROCESS_NAME)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    work(pipe)
    os._exit(0)
