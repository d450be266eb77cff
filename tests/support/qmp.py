"""QEMU's machine protocol (QMP): one command after the other, events kept until they are asked for."""

import json
import socket
from pathlib import Path
from typing import Any

ANSWER_LIMIT_S = 30.0


class Qmp:
    """A connection to the socket at `path`, where QEMU already listens."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(ANSWER_LIMIT_S)
        self._socket.connect(str(path))
        self._stream = self._socket.makefile("rw")
        self._events: list[dict[str, Any]] = []
        assert "QMP" in self._read()
        self.ask("qmp_capabilities")

    def ask(self, command: str, **arguments: object) -> Any:
        """What QEMU returns; an error fails the test with QEMU's words."""
        words = {"execute": command, "arguments": {name.replace("_", "-"): arguments[name] for name in arguments}}
        self._stream.write(json.dumps(words))
        self._stream.flush()
        while "event" in (answer := self._read()):
            self._events.append(answer)
        assert "return" in answer, (command, arguments, answer)
        return answer["return"]

    def wait_for(self, event: str, timeout_s: float = ANSWER_LIMIT_S) -> dict[str, Any]:
        """The next one of that name, which may have come before."""
        self._socket.settimeout(timeout_s)
        try:
            while not (found := [each for each in self._events if each["event"] == event]):
                self._events.append(self._read())
        finally:
            self._socket.settimeout(ANSWER_LIMIT_S)
        self._events.remove(found[0])
        return found[0]

    def close(self) -> None:
        self._stream.close()
        self._socket.close()

    def _read(self) -> dict[str, Any]:
        line = self._stream.readline()
        assert line, "QEMU has ended"
        message: dict[str, Any] = json.loads(line)
        return message
