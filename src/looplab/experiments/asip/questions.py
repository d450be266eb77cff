"""Questions to a part that measures: one UDP datagram each, one for the answer."""

import contextlib
import socket

from looplab.errors import MachineError

TIMEOUT_S = 0.5
TRIES = 10
# Any other question asks for what a part has counted.
COUNTS = b"?"


class Asked:
    """The part `what` at `address`, host:port. Each question is asked until it is answered, every `timeout_s`.

    Raises LabError (exit code 3) with `remedy` if no answer comes.
    """

    def __init__(self, what: str, address: str, remedy: str, timeout_s: float = TIMEOUT_S) -> None:
        self._what, self._address, self._remedy, self._timeout_s = what, address, remedy, timeout_s

    def ask(self, question: bytes, tries: int = TRIES) -> str:
        host, _, port = self._address.rpartition(":")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(self._timeout_s)
            for _ in range(tries):
                with contextlib.suppress(OSError):
                    sock.connect((host, int(port)))
                    sock.send(question)
                    return sock.recv(65535).decode("ascii")
        raise MachineError(f"The {self._what} at {self._address} does not answer.", self._remedy)

    def counts(self) -> dict[str, str]:
        """Return what the part has counted, by name."""
        return dict(pair.split("=", 1) for pair in self.ask(COUNTS).split())
