"""One capture at a time: dumpcap writes what passes to a file in memory and tells at its end what it lost."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from looplab.capture.segments import count, tshark_command
from looplab.errors import EXIT_INVALID, EXIT_MACHINE, LabError

FOLDER = Path("/captures")
BUFFER_MIB = 16
# dumpcap ends by itself at this size: some ten times what 10 000 messages at QoS 2 take.
MOST_KB = 400_000
# dumpcap gets packets from the kernel by blocks, each 250 ms old at most, and leaves the last one when it is ended.
BLOCKS_S = 1.0
START_TIMEOUT_S = 15.0
STOP_TIMEOUT_S = 30.0
DISSECT_TIMEOUT_S = 600.0
_LOST = re.compile(r"Packets received/dropped on interface '[^']*': (\d+)/(\d+)")


class Capture:
    """dumpcap at work. Raises LabError (exit code 3) where it does not begin."""

    def __init__(self, broker_port: int, folder: Path = FOLDER, interface: str = "any") -> None:
        self._broker_port = broker_port
        self._path = folder / "cell.pcapng"
        self._path.unlink(missing_ok=True)
        self._said: list[str] = []
        self._begun = threading.Event()
        # What arrives leaves once more by the ifb device where netem delays it: counted when it arrives.
        wanted = f"tcp port {broker_port} and not (outbound and src port {broker_port})"
        command = [
            *("dumpcap", "-q", "-p", "-i", interface, "-f", wanted, "-B", str(BUFFER_MIB)),
            *("-a", f"filesize:{MOST_KB}", "-w", str(self._path)),
        ]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if not self._begun.wait(START_TIMEOUT_S) or self._process.poll() is not None:
            self.abandon()
            raise LabError(
                f"No packets can be captured: {self._last()}.",
                "The container qd-capture needs cap_add: [NET_RAW, SETUID, SETGID] and starts as root.",
                EXIT_MACHINE,
            )

    def figures(self, publisher_ports: list[int], subscriber_ports: list[int], since_s: float) -> dict[str, Any]:
        """End the capture and dissect it: segments.count with `captured` and `dropped` frames.

        Raises LabError (exit code 1) where the capture is not whole.
        """
        ended_early = self._process.poll() is not None
        time.sleep(0 if ended_early else BLOCKS_S)
        self._end()
        found = _LOST.search("".join(self._said))
        if ended_early or found is None:
            raise LabError(f"The capture ended before the cell did: {self._last()}.", "Lower MESSAGES.", EXIT_INVALID)
        try:
            figures = self._dissect(publisher_ports, subscriber_ports, since_s)
        finally:
            self._path.unlink(missing_ok=True)
        return {"captured": int(found[1]), "dropped": int(found[2]), **figures}

    def abandon(self) -> None:
        """End it and keep nothing."""
        self._end()
        self._path.unlink(missing_ok=True)

    def _dissect(self, publisher_ports: list[int], subscriber_ports: list[int], since_s: float) -> dict[str, Any]:
        command = tshark_command(self._path, self._broker_port)
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=DISSECT_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            raise LabError(f"tshark took more than {DISSECT_TIMEOUT_S:.0f} s.", "Lower MESSAGES.") from None
        if done.returncode:
            raise LabError(f"tshark failed: {_last_line(done.stderr)}.", "See `docker compose logs qd-capture`.")
        return count(done.stdout.splitlines(), publisher_ports, subscriber_ports, since_s)

    def _end(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._reader.join(STOP_TIMEOUT_S)

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._said.append(line)
            # Said once the socket is open and its filter set.
            if line.startswith("File: "):
                self._begun.set()
        self._begun.set()

    def _last(self) -> str:
        return _last_line("".join(self._said))


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1].rstrip(".") if lines else "it said nothing"
