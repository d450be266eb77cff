"""The clients as the controller sees them: a process for each language, all with one protocol of lines over TCP.

An order is a verb with its values, `latency tests=100 transport=tcp …`. Its answer is a line `due sent received` for
each test (monotonic ns, received -1 where no notice came), then `ok name=value …`; or `error <sentence>`.

- `hello` names the runtime;
- `latency` makes tests, and counts bytes;
- `follow` copies each change of a pin, `ok` once it does; the next line, `stop`, ends it, and is answered with counts.
"""

import contextlib
import socket
from typing import NamedTuple

from looplab.errors import LabError, MachineError

CONNECT_TIMEOUT_S = 2.0
# Opening the port resets the board, which takes some seconds.
ANSWER_TIMEOUT_S = 30.0


class WorkerAnswer(NamedTuple):
    """(due, sent, received) of each test, and what the client says beside."""

    times: list[list[int]]
    facts: dict[str, str]


class WorkerClient:
    """A connection to the worker at `address`, host:port. Raises LabError (exit code 3) whatever fails there.

    An answer may take `patience_s` beside the tests themselves.
    """

    def __init__(self, language: str, address: str, patience_s: float) -> None:
        self._language, self._patience_s = language, patience_s
        host, _, port = address.rpartition(":")
        try:
            self._socket = socket.create_connection((host, int(port)), CONNECT_TIMEOUT_S)
        except OSError as error:
            raise self._fault(str(error)) from error
        self._lines = self._socket.makefile("r", encoding="utf-8", newline="\n")

    def close(self) -> None:
        with contextlib.suppress(OSError):
            # An open file keeps the socket open, and the worker serves one controller at a time.
            self._lines.close()
            self._socket.close()

    def runtime(self) -> str:
        """Return what runs the client, with its version."""
        return self.ask("hello").facts["runtime"].replace("_", " ")

    def ask(self, verb: str, total_s: float = 0.0, /, **values: object) -> WorkerAnswer:
        """Return the answer to an order whose tests take about `total_s`."""
        order = " ".join([verb, *(f"{name}={value}" for name, value in values.items())])
        times: list[list[int]] = []
        try:
            self._socket.settimeout(total_s + self._patience_s)
            self._socket.sendall(f"{order}\n".encode())
            while (line := self._lines.readline())[:1].isdigit():
                times.append([int(ns) for ns in line.split()])
        except OSError as error:
            raise self._fault(str(error)) from error
        if not line.endswith("\n"):
            raise self._fault("it ended")
        kind, _, rest = line.rstrip().partition(" ")
        if kind != "ok":
            raise self._fault(rest if kind == "error" else f"it answered {line!r}")
        return WorkerAnswer(times, dict(pair.split("=", 1) for pair in rest.split()))

    def _fault(self, why: str) -> LabError:
        return MachineError(f"The {self._language} client: {why}", f"See `docker compose logs asip-{self._language}`.")
