"""End a run whose broker cannot start: the controller would wait for a connection until its time limit."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from looplab.errors import MachineError
from looplab.lab.docker.compose import Compose

LOOK_EVERY_S = 2.0


class FailingBroker:
    """Looks for a broker that has ended, until `waiting` is over; stops `controller` if it finds one twice in a row.

    Twice, because an engine restarts a broker that died by chance within one look.
    """

    def __init__(self, compose: Compose, controller: str) -> None:
        self._compose = compose
        self._controller = controller
        self._over = threading.Event()
        # The service, and its last lines.
        self._ended = ("", "")
        self._thread = threading.Thread(target=self._look, daemon=True)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Look while this context lasts, or until an event has `passed` that the controller reports of a broker."""
        self._thread.start()
        try:
            yield
        finally:
            self._over.set()

    def passed(self, event: dict[str, Any]) -> dict[str, Any]:
        """Return an event of the controller; from the first message on, nothing but the run uses the machine."""
        if event.get("event") == "progress" or "broker" not in event.get("what", "broker"):
            self._over.set()
        return event

    def check(self, profile: str) -> None:
        """Raise MachineError (exit code 3) if the broker was found ended."""
        name, words = self._ended
        if name:
            raise MachineError(
                f"{profile} was stopped: its {name} ends whenever it is started. Its last lines: {words or 'none'}",
                "Correct its configuration (compose/broker.<name>.yaml, LAB_OWN), or take another broker: --broker.",
            )

    def _look(self) -> None:
        before: dict[str, str] = {}
        while not self._over.wait(LOOK_EVERY_S):
            ended = {name: words for name, words in self._compose.fallen().items() if "broker" in name}
            if (twice := ended.keys() & before.keys()) and not self._over.is_set():
                self._ended = (min(twice), ended[min(twice)])
                self._compose.stop(self._controller)
                return
            before = ended
