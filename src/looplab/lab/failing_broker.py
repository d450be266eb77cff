"""End a run whose broker cannot start: the controller would wait for a connection until its time limit."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from looplab.errors import MachineError
from looplab.lab.docker.compose import Compose

LOOK_EVERY_S = 2.0
Event = dict[str, Any]


@contextmanager
def ending_with_its_broker(compose: Compose, controller: str) -> Iterator[Callable[[Event], Event]]:
    """Stop `controller` if its broker has ended twice in a row: an engine restarts one that died by chance.

    Yield a function that passes on the controller's events. Once it has a plan, or waits for another part than the
    broker, nobody looks: nothing but the run uses the machine. Raises MachineError (exit code 3).
    """
    over, ended = threading.Event(), {}

    def look() -> None:
        before: dict[str, str] = {}
        while not over.wait(LOOK_EVERY_S):
            now = {name: words for name, words in compose.fallen().items() if "broker" in name}
            if (twice := now.keys() & before.keys()) and not over.is_set():
                ended.update({name: now[name] for name in twice})
                compose.stop(controller)
                return
            before = now

    def passed(event: Event) -> Event:
        if event.get("event") == "plan" or "broker" not in event.get("what", "broker"):
            over.set()
        return event

    threading.Thread(target=look, daemon=True).start()
    try:
        yield passed
    finally:
        over.set()
    for name, words in ended.items():
        raise MachineError(
            f"{controller} was stopped: its {name} ends whenever it is started. Its last lines: {words or 'none'}",
            "Correct its configuration (compose/broker.<name>.yaml, LAB_OWN), or take another broker: --broker.",
        )
