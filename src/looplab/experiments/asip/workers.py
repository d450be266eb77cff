"""The clients as the controller sees them: one process for each language, which takes orders over TCP."""

import contextlib
import socket
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from looplab.errors import LabError, MachineError

CONNECT_TIMEOUT_S = 2.0
# Opening the port, and the board's reset.
ANSWER_TIMEOUT_S = 30.0


# (test, due, sent, received) of one test; received is -1 where no answer came.
Sample = tuple[int, int, int, int]


class WorkerClient:
    """A connection to the worker at `address`, host:port. Raises LabError (exit code 3) whatever fails there.

    An answer may take `patience_s` beside the tests themselves.
    """

    def __init__(self, language: str, address: str, patience_s: float = ANSWER_TIMEOUT_S) -> None:
        self._language = language
        self._patience_s = patience_s
        host, _, port = address.rpartition(":")
        try:
            self._socket = socket.create_connection((host, int(port)), CONNECT_TIMEOUT_S)
        except OSError as error:
            raise self._fault(str(error)) from error
        self._lines = self._socket.makefile("r", encoding="utf-8", newline="\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with contextlib.suppress(OSError):
            # The socket stays open as long as a file of it does, and the worker serves one controller at a time.
            self._lines.close()
            self._socket.close()

    def hello(self) -> str:
        """Return what runs the client, with its version."""
        facts = self._facts(self._ask("hello", {}), "hello")
        jit = {"on": ", JIT", "off": ", interpreter"}.get(facts.get("jit", ""), "")
        return facts.get("runtime", "unknown").replace("_", " ") + (jit if self._language == "java" else "")

    def latency(self, words: Mapping[str, object], total_s: float = 0.0) -> tuple[list[Sample], dict[str, str]]:
        """Have the tests made, which take about `total_s`; return them and what the client says beside."""
        line = self._ask("latency", words, total_s)
        samples = []
        while line.startswith("sample "):
            test, due_ns, sent_ns, received_ns = map(int, line.split()[1:5])
            samples.append((test, due_ns, sent_ns, received_ns))
            line = self._answer(self._patience_s)
        return samples, self._facts(line, "done")

    def follow(self, words: Mapping[str, object]) -> None:
        """Have the client copy each change of a pin to another, until `stop`."""
        self._facts(self._ask("follow", words), "ready")

    def stop(self) -> dict[str, str]:
        """End `follow`; return what the client counted."""
        return self._facts(self._ask("stop", {}), "done")

    def _ask(self, verb: str, words: Mapping[str, object], total_s: float = 0.0) -> str:
        text = " ".join([verb, *(f"{name}={value}" for name, value in words.items())])
        try:
            self._socket.sendall(f"{text}\n".encode())
        except OSError as error:
            raise self._fault(str(error)) from error
        return self._answer(total_s + self._patience_s)

    def _answer(self, timeout_s: float) -> str:
        self._socket.settimeout(timeout_s)
        try:
            line = self._lines.readline()
        except OSError as error:
            raise self._fault(str(error)) from error
        if not line.endswith("\n"):
            raise self._fault("it ended")
        if line.startswith("error "):
            raise self._fault(line.removeprefix("error ").strip())
        return line

    def _facts(self, line: str, verb: str) -> dict[str, str]:
        first, *pairs = line.split()
        if first != verb:
            raise self._fault(f"expected {verb}, got {line.strip()!r}")
        return dict(pair.split("=", 1) for pair in pairs)

    def _fault(self, why: str) -> LabError:
        return MachineError(f"The {self._language} client: {why}", f"See `docker compose logs asip-{self._language}`.")
